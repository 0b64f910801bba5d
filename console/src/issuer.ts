// Signing in with an OpenID Connect issuer: the authorization code flow with PKCE. The page makes up what proves that it asked; the server
// exchanges the code and keeps the token, which never comes here.
import { json } from "./api";

export interface Issuer {
  issuer: string;
  authorizationEndpoint: string;
  clientID: string;
  scope: string;
  responseMode: string;
}

/** What the page made up before it sent the browser away. It is in this tab's storage until the browser comes back. */
interface Asked {
  issuer: string;
  state: string;
  nonce: string;
  verifier: string;
  redirectURI: string;
  hash: string;
  at: number;
}

const ASKED = "ferrokube-console-asked";
/** An answer that comes later belongs to nothing any more. */
const PATIENCE_MS = 15 * 60 * 1000;

export const issuers = async () => (await json<{ items: Issuer[] }>("/console/issuers")).items;

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const random = () => base64(crypto.getRandomValues(new Uint8Array(32)));

/** Sends the browser to the issuer. */
export async function leaveFor(to: Issuer) {
  const asked: Asked = {
    issuer: to.issuer,
    state: random(),
    nonce: random(),
    verifier: random(),
    redirectURI: location.origin + location.pathname,
    hash: location.hash,
    at: Date.now(),
  };
  const challenge = base64(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(asked.verifier))));
  sessionStorage.setItem(ASKED, JSON.stringify(asked));
  const url = new URL(to.authorizationEndpoint);
  const parameters = {
    response_type: "code",
    response_mode: to.responseMode === "fragment" ? "fragment" : "",
    client_id: to.clientID,
    redirect_uri: asked.redirectURI,
    scope: to.scope,
    state: asked.state,
    nonce: asked.nonce,
    code_challenge: challenge,
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) if (value) url.searchParams.set(name, value);
  location.assign(url);
}

/** The header that signs the browser in, if it comes back from an issuer. The code stays neither in the address nor in the history. */
export function comeBack(): string | undefined {
  const inQuery = new URLSearchParams(location.search);
  const answer = inQuery.has("state") ? inQuery : new URLSearchParams(location.hash.replace(/^#\/?/, ""));
  const [state, code] = [answer.get("state"), answer.get("code")];
  if (!state || (!code && !answer.has("error"))) return undefined;
  const kept = sessionStorage.getItem(ASKED);
  sessionStorage.removeItem(ASKED);
  const asked = kept ? (JSON.parse(kept) as Asked) : undefined;
  window.history.replaceState(null, "", location.pathname + (asked?.hash || "#/now"));
  if (!asked || asked.state !== state || Date.now() - asked.at > PATIENCE_MS) throw new Error("The issuer's answer is not one to this tab's question. Sign in again.");
  const from = answer.get("iss");
  if (from !== null && from !== asked.issuer) throw new Error("The answer is of another issuer than the one that was asked.");
  if (!code) throw new Error(`The issuer refused: ${(answer.get("error_description") || answer.get("error") || "").slice(0, 300)}`);
  const { issuer, verifier, nonce, redirectURI: redirectUri } = asked;
  return base64(new TextEncoder().encode(JSON.stringify({ issuer, code, verifier, nonce, redirectUri })));
}
