import { expect, test } from 'vitest';
import { cluster } from 'ferrokube/vitest';

const server = cluster();

test.each(['first', 'second'])('each test has an empty server: the %s', async () => {
  const made = await server().request('POST', '/api/v1/namespaces', { metadata: { name: 'greetings' } });
  expect(made.status).toBe(201);
});
