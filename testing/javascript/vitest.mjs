import { afterAll, afterEach, beforeAll } from 'vitest';
import hooks from './hooks.js';

export const cluster = (settings) => hooks.hooks({ beforeAll, afterEach, afterAll }, settings);
