import { Settings, TestServer } from './index';

/** One server for this file of tests, empty for each test. The function that is returned gives it while tests run. */
export function cluster(settings?: Settings): () => TestServer;
