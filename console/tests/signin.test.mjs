// Signing in by a link and with an issuer, and the past of objects: a server on disk, as an operator starts it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { isAccessible, isClean, signIn, startBrowser, startOnDisk } from "./browser.mjs";
import { startIssuer } from "./issuer.mjs";

const folder = mkdtempSync(join(tmpdir(), "console-"));
let server;
let browser;
let issuer;

before(async () => {
  issuer = await startIssuer();
  writeFileSync(join(folder, "issuer.pem"), issuer.cert);
  const oidc = { "issuer-url": issuer.url, "client-id": "console", "ca-file": join(folder, "issuer.pem"), "username-claim": "sub", "username-prefix": "oidc:", "groups-claim": "groups", "signing-algs": "ES256" };
  const flags = Object.entries(oidc).flatMap(([name, value]) => [`--oidc-${name}`, value]);
  server = await startOnDisk([...flags, "--history=1h"]);
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await issuer?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a link signs the administrator in once", async () => {
  const link = server.link();
  assert.ok(link.startsWith(`${server.url}/console/#code=`), link);
  const page = await browser.open(server);
  await page.goto(link);
  await page.getByText("kubernetes-admin").waitFor();
  assert.equal(page.url(), `${server.url}/console/#/now`);
  const other = await browser.open(server);
  await other.goto(link);
  await other.getByLabel("Bearer token").waitFor();
  isClean(page);
});

for (const mode of ["fragment", "query"]) {
  test(`an issuer signs a user in, and its token is never in the browser (${mode})`, async () => {
    issuer.mode = mode;
    issuer.tokens.length = 0;
    const page = await browser.open(server);
    const urls = [];
    const texts = [];
    page.on("request", (sent) => urls.push(sent.url()));
    page.on("response", (response) => texts.push(response.text().catch(() => "")));
    await page.goto(`${server.url}/console/#/objects`);
    const button = page.getByRole("button", { name: `Sign in with ${issuer.url.replace("https://", "")}` });
    await button.waitFor();
    await isAccessible(page);
    await button.click();
    await page.getByText("oidc:jane").waitFor();
    // The page that was asked for, without the code.
    assert.equal(page.url(), `${server.url}/console/#/objects`);
    assert.equal(issuer.tokens.length, 1);
    const [token] = issuer.tokens;
    assert.ok((await Promise.all(texts)).every((text) => !text.includes(token)));
    assert.ok([...urls, ...issuer.asked].every((url) => !url.includes(token.slice(0, 40))));
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.ok(!kept.includes("verifier") && !kept.includes(token));
    const cookies = await page.context().cookies(server.url);
    assert.ok(cookies.length === 1 && !cookies[0].value.includes("."));
    // Jane has no rights, and is asked for none of the server's.
    await page.goto(`${server.url}/console/#/now`);
    await page.getByText("You may not read /console/api/now").waitFor();
    assert.deepEqual(page.complaints, []);
    assert.deepEqual(page.foreign.filter((url) => !url.startsWith(`${issuer.url}/auth?`)), []);
    const asked = new URL(page.foreign[0]).searchParams;
    assert.equal(asked.get("code_challenge_method"), "S256");
    assert.ok(asked.get("state").length >= 43 && asked.get("nonce").length >= 43 && asked.get("code_challenge").length === 43);
  });
}

test("answers of an issuer to another question sign nobody in", async () => {
  const sign = async (page) => page.getByRole("button", { name: /Sign in with/ }).click();
  const page = await browser.open(server);
  // Another site leads the browser here with a code of its own.
  await page.goto(`${server.url}/console/#code=stolen&state=guessed`);
  await page.getByRole("alert").getByText("not one to this tab's question").waitFor();
  assert.ok(!page.url().includes("stolen"));
  issuer.wrongNonce = true;
  await sign(page);
  await page.getByRole("alert").getByText("does not accept what the issuer says").waitFor();
  issuer.wrongNonce = false;
  assert.deepEqual(await page.context().cookies(server.url), []);
  // A header that nobody could have made, and one that is none.
  const made = (value) => server.call("POST", "/console/session", {}, "", { "x-ferrokube-console": "none", "x-ferrokube-console-issued": value });
  const forged = { issuer: issuer.url, code: "x", verifier: "v", nonce: "n", redirectUri: `${server.url}/console/` };
  for (const value of ["", "e30", "%%%", Buffer.from(JSON.stringify(forged)).toString("base64url"), Buffer.from(JSON.stringify({ ...forged, issuer: "https://elsewhere" })).toString("base64url"), "A".repeat(20_000)]) {
    const answer = await made(value);
    assert.equal(answer.code, 401, value.slice(0, 20));
    assert.equal(answer.headers["set-cookie"], undefined);
  }
});

test("the past of an object: who changed it, how it was, and who set which field", async () => {
  const at = "/api/v1/namespaces/default/configmaps";
  await server.api("POST", at, { metadata: { name: "past" }, data: { colour: "red", size: "1" } });
  await server.api("PATCH", `${at}/past`, { data: { colour: "blue" } }, { "content-type": "application/merge-patch+json", "user-agent": "painter/2.0" });
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/objects/core/configmaps/default/past?tab=history`);
  const changes = page.getByRole("group", { name: "Changes" });
  await changes.getByText("replace /data/colour").waitFor();
  await changes.getByText("painter/2.0").waitFor();
  await page.getByRole("button", { name: "As it was" }).last().click();
  await page.locator(".gone", { hasText: "colour: red" }).waitFor();
  await page.getByRole("group", { name: "Blame" }).getByText("painter/2.0").first().waitFor();
  await isAccessible(page);
  isClean(page);
});
