// Measures what an open page costs: bytes over the wire, the time to the first paint, and CPU time of the server. It prints the table for
// docs/benchmarks.md. The server is a release build that FERROKUBE_BINARY names, under a steady load of its own.
import { readFileSync } from "node:fs";
import { signIn, startBrowser, startOnDisk } from "./browser.mjs";

const SECONDS = Number(process.env.CONSOLE_SECONDS ?? 30);
/** Reads a second while everything is measured, of which a tenth lists 500 objects. */
const RATE = Number(process.env.CONSOLE_RATE ?? 200);
const TICKS_A_SECOND = 100;

const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

/** CPU seconds of a process so far. */
function spent(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
}

/** The share of one core that the server uses. */
async function share(server) {
  const before = spent(server.pid);
  await wait(SECONDS);
  return (100 * (spent(server.pid) - before)) / SECONDS;
}

/** Counts the bytes that come over the network for a page. */
async function counting(page) {
  const session = await page.context().newCDPSession(page);
  let bytes = 0;
  await session.send("Network.enable");
  session.on("Network.loadingFinished", (event) => (bytes += event.encodedDataLength));
  return () => bytes;
}

const server = await startOnDisk();
const browser = await startBrowser();
let loading = true;
try {
  for (let at = 0; at < 500; at++) await server.api("POST", "/api/v1/namespaces/default/configmaps", { metadata: { name: `c-${at}` }, data: { text: "x".repeat(500) } });
  const load = (async () => {
    for (let at = 0; loading; at++) {
      void server.call("GET", `/api/v1/namespaces/default/configmaps${at % 10 === 0 ? "" : `/c-${at % 500}`}`).catch(() => undefined);
      await wait(1 / RATE);
    }
  })();
  await wait(5);
  const none = await share(server);
  const rows = [];
  const first = await browser.open(server);
  const bytes = await counting(first);
  await signIn(first, server);
  await first.getByText("ready", { exact: true }).waitFor();
  rows.push(["bytes until the first page is complete, compressed", `${Math.round(bytes() / 1000)} kB`]);
  await first.reload();
  await first.getByText("ready", { exact: true }).waitFor();
  const [paint] = JSON.parse(await first.evaluate(() => JSON.stringify(performance.getEntriesByName("first-contentful-paint"))));
  rows.push(["first paint after the address is opened, second visit", `${Math.round(paint.startTime)} ms`]);
  await wait(15);
  const before = bytes();
  const one = await share(server);
  rows.push(["bytes a minute while the first page is open", `${Math.round(((bytes() - before) / SECONDS) * 60 / 1000)} kB`]);
  const nine = [];
  for (let at = 0; at < 9; at++) {
    const page = await browser.open(server);
    await signIn(page, server);
    nine.push(page);
  }
  await wait(15);
  const ten = await share(server);
  await Promise.all([first, ...nine].map((page) => page.context().close()));
  await wait(20);
  const closed = await share(server);
  const cpu = (value) => `${value.toFixed(1)} % of a core`;
  rows.push(["server, no page was open yet", cpu(none)], ["server, one page open", cpu(one)], ["server, ten pages open", cpu(ten)], ["server, all pages closed", cpu(closed)]);
  console.log(rows.map(([name, value]) => `| ${name} | ${value} |`).join("\n"));
  loading = false;
  await load;
} finally {
  loading = false;
  await browser.close();
  await server.stop();
}
