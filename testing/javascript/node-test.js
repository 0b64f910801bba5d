'use strict';

const { before, afterEach, after } = require('node:test');
const { hooks } = require('./hooks.js');

exports.cluster = (settings) => hooks({ beforeAll: before, afterEach, afterAll: after }, settings);
