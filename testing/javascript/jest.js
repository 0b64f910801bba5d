'use strict';

const { hooks } = require('./hooks.js');

/* global beforeAll, afterEach, afterAll */
exports.cluster = (settings) => hooks({ beforeAll, afterEach, afterAll }, settings);
