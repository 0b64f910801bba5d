// An OpenID Connect issuer whose every user is jane, and which checks that a code is exchanged by the page that asked for it.
import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { createServer } from "node:https";
import { makeCertificate } from "./certificate.mjs";

const base64 = (value) => Buffer.from(value).toString("base64url");

export async function startIssuer() {
  const { cert, key } = makeCertificate();
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const codes = new Map();
  /** How the issuer misbehaves, the addresses that it was asked for, and the tokens that it gave out. */
  const issuer = { wrongNonce: false, mode: "fragment", asked: [], tokens: [], cert };
  const answers = {
    "/.well-known/openid-configuration": () => ({
      issuer: issuer.url,
      jwks_uri: `${issuer.url}/keys`,
      authorization_endpoint: `${issuer.url}/auth`,
      token_endpoint: `${issuer.url}/token`,
      scopes_supported: ["openid", "groups"],
      response_modes_supported: ["query", "fragment"],
    }),
    "/keys": () => ({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", use: "sig", alg: "ES256" }] }),
    "/token": (form) => {
      const asked = codes.get(form.get("code"));
      codes.delete(form.get("code"));
      const proven = asked && createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url") === asked.get("code_challenge");
      if (!proven || form.get("redirect_uri") !== asked.get("redirect_uri") || form.get("client_id") !== "console") return undefined;
      const nonce = issuer.wrongNonce ? "x" : asked.get("nonce");
      const now = Math.floor(Date.now() / 1000);
      const claims = { iss: issuer.url, aud: "console", sub: "jane", groups: ["devs"], nonce, iat: now, exp: now + 600 };
      const text = `${base64(JSON.stringify({ alg: "ES256", kid: "1" }))}.${base64(JSON.stringify(claims))}`;
      const token = `${text}.${sign("sha256", Buffer.from(text), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
      issuer.tokens.push(token);
      return { id_token: token, token_type: "Bearer", access_token: "access" };
    },
  };
  const server = createServer({ cert, key }, async (request, response) => {
    const url = new URL(request.url, issuer.url);
    issuer.asked.push(request.url);
    if (url.pathname === "/auth") {
      const code = randomBytes(8).toString("hex");
      codes.set(code, url.searchParams);
      const answer = new URLSearchParams({ code, state: url.searchParams.get("state"), iss: issuer.url });
      response.writeHead(302, { location: `${url.searchParams.get("redirect_uri")}${issuer.mode === "fragment" ? "#" : "?"}${answer}` }).end();
      return;
    }
    let body = "";
    for await (const more of request) body += more;
    const answer = answers[url.pathname]?.(new URLSearchParams(body));
    response.writeHead(answer ? 200 : 400, { "content-type": "application/json" }).end(JSON.stringify(answer ?? { error: "invalid_grant" }));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  issuer.url = `https://127.0.0.1:${server.address().port}`;
  issuer.stop = () => new Promise((done) => (server.close(done), server.closeAllConnections()));
  return issuer;
}
