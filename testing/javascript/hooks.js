'use strict';
// One server for a file of tests, empty for each test: the same for every runner with these four hooks.

const { start } = require('./index.js');

/** Answers with a function that gives the server, which is there while tests run. */
function hooks({ beforeAll, afterEach, afterAll }, settings) {
  let server;
  beforeAll(async () => {
    server = await start(settings);
  });
  afterEach(async () => {
    await server.reset();
  });
  afterAll(async () => {
    await server?.stop();
  });
  return () => server;
}

module.exports = { hooks };
