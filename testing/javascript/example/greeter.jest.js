const { cluster } = require('ferrokube/jest');

const server = cluster();

test.each(['first', 'second'])('each test has an empty server: the %s', async () => {
  const made = await server().request('POST', '/api/v1/namespaces', { metadata: { name: 'greetings' } });
  expect(made.status).toBe(201);
});
