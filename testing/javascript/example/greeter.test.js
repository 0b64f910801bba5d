// node --test: a project that tests with ferrokube, as its users have it.
const assert = require('node:assert');
const test = require('node:test');
const { cluster } = require('ferrokube/node-test');
const { start } = require('ferrokube');

const server = cluster();

for (const round of ['first', 'second']) {
  test(`each test has an empty server: the ${round}`, async () => {
    const made = await server().request('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name: 'hello' } });
    assert.strictEqual(made.status, 201);
  });
}

test('the client of Kubernetes', async () => {
  const { CoreV1Api, KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(server().kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'hello' } } });
  const maps = await core.listNamespacedConfigMap({ namespace: 'default' });
  assert.ok(maps.items.some((map) => map.metadata.name === 'hello'));
});

test('users may do what roles say', async () => {
  const { CoreV1Api, KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromString(await server().user('alice', { groups: ['devs'], clusterRole: 'view' }));
  const core = config.makeApiClient(CoreV1Api);
  assert.ok((await core.listNamespacedConfigMap({ namespace: 'default' })).items);
  await assert.rejects(core.listNamespacedSecret({ namespace: 'default' }), (error) => error.code === 403);
});

test('servers of their own', async () => {
  const other = await start({ bare: true });
  assert.notStrictEqual(other.url, server().url);
  await other.stop();
});
