'use strict';
// A Kubernetes API server as a process, and what can be asked of it. No other package is needed.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');

const STOP_TIMEOUT_MS = 5000;

/** The path of the program: what FERROKUBE_BINARY names, or that of the package for this platform. */
function program() {
  if (process.env.FERROKUBE_BINARY) return process.env.FERROKUBE_BINARY;
  const name = `@ferrokube/${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/ferrokube`);
  } catch {
    throw new Error(`the package ${name} is not installed; FERROKUBE_BINARY can name the program`);
  }
}

/** Starts a server. It ends with stop(), and with this process at the latest. */
async function start(settings = {}) {
  const { crds = [], flags = [], bare = false, logs, binary } = settings;
  const folder = logs ?? fs.mkdtempSync(path.join(os.tmpdir(), 'ferrokube-logs-'));
  const args = ['test-server', '--print-json', '--logs', folder];
  for (const crd of crds) args.push('--crds', crd);
  if (bare) args.push('--bare');
  if (flags.length > 0) args.push('--', ...flags);
  const child = spawn(binary ?? program(), args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const forget = () => logs ?? fs.rmSync(folder, { recursive: true, force: true });
  const ended = new Promise((resolve) => child.once('close', resolve));
  try {
    const ready = JSON.parse(await firstLine(child));
    // A test program must be able to end while the server runs: the server ends with it.
    child.unref();
    child.stdin.unref();
    child.stdout.unref();
    return new TestServer(child, ended, ready, folder, forget);
  } catch (error) {
    child.kill();
    forget();
    throw error;
  }
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.once('error', reject);
    // The server is asked to end by closing its input, which fails if it has ended by itself.
    child.stdin.on('error', () => {});
    child.once('exit', () => reject(new Error('ferrokube ended before it was ready; standard error says why')));
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
  });
}

class TestServer {
  #child;
  #ended;
  #forget;

  constructor(child, ended, ready, logs, forget) {
    this.#child = child;
    this.#ended = ended;
    this.#forget = forget;
    this.ready = ready;
    this.logs = logs;
    this.url = ready.url;
    this.ca = ready.ca;
    this.token = ready.token;
    this.kubeconfig = ready.kubeconfig;
  }

  /** Removes what was written since the start and brings back what the server had made for itself. */
  async reset({ keepDefinitions = false } = {}) {
    return JSON.parse(await this.#post(`/test-server/reset?definitions=${keepDefinitions ? 'keep' : 'remove'}`));
  }

  /** A kubeconfig, as text, for a user in groups, with the rights of a ClusterRole if one is named. */
  async user(name, { groups = [], clusterRole, namespace } = {}) {
    const query = new URLSearchParams({ name });
    for (const group of groups) query.append('group', group);
    if (clusterRole) query.append('clusterRole', clusterRole);
    if (namespace) query.append('namespace', namespace);
    return this.#post(`/test-server/users?${query}`);
  }

  /** A request of the administrator: the status code and the decoded JSON of the answer. */
  async request(method, target, body) {
    const { status, text } = await this.#send(method, target, body === undefined ? undefined : JSON.stringify(body));
    let json;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status, body: json };
  }

  /** Ends the server. Nothing of it is left, unless its logs are to be kept. */
  async stop({ keepLogs = false } = {}) {
    this.#child.ref();
    this.#child.stdin.end();
    const killer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await this.#ended;
    clearTimeout(killer);
    if (!keepLogs) this.#forget();
  }

  async #post(target) {
    const { status, text } = await this.#send('POST', target);
    if (status !== 200) throw new Error(`${status}: ${text}`);
    return text;
  }

  #send(method, target, body) {
    const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const request = https.request(this.url + target, { method, headers, ca: this.ca, agent: false }, (response) => {
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(chunks).toString() }));
      });
      request.on('error', reject);
      request.end(body);
    });
  }
}

module.exports = { program, start, TestServer };
