// Signing in: with the code of a link, with an issuer, with a token, or with what the connection brings.
import { useState } from "preact/hooks";
import { ApiError, json, key, message, send } from "./api";
import { comeBack, issuers, leaveFor } from "./issuer";
import { Text, useRead } from "./ui";

export interface Who {
  user: string;
  groups: string[] | null;
  session: boolean;
  version: string;
}

/** Who the server takes us for; undefined if it knows nobody. */
export async function whoAmI(): Promise<Who | undefined> {
  const code = /^#code=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (code) {
    // The code is good once: it stays neither in the address nor in the history.
    window.history.replaceState(null, "", location.pathname + "#/now");
    await begin({ headers: { "x-ferrokube-console-code": code }, body: "{}" });
  }
  const issued = comeBack();
  if (issued) {
    try {
      await begin({ headers: { "x-ferrokube-console-issued": issued }, body: "{}" });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 401) throw error;
      throw new Error("The server does not accept what the issuer says. Its log says why.");
    }
  }
  try {
    return await json<Who>("/console/session");
  } catch (error) {
    // An anonymous user may not ask.
    if (error instanceof ApiError && (error.code === 401 || error.code === 403)) return undefined;
    throw error;
  }
}

async function begin(options: { headers: Record<string, string>; body: string }) {
  const made = await json<Who & { key: string }>("/console/session", { method: "POST", ...options });
  key.set(made.key);
}

export async function signOut() {
  await send("/console/session", { method: "DELETE" }).catch(() => undefined);
  key.clear();
  location.hash = "#/now";
  location.reload();
}

export function SignIn({ why, done }: { why: string; done: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(why);
  const [busy, setBusy] = useState(false);
  const known = useRead(issuers, []).value ?? [];
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      // The header authenticates this request, and the body is what the session keeps.
      await begin({ headers: { authorization: `Bearer ${token.trim()}` }, body: JSON.stringify({ token: token.trim() }) });
      done();
    } catch (error) {
      setError(error instanceof ApiError && error.code === 401 ? "The server does not accept this token." : message(error));
    }
    setBusy(false);
  };
  return (
    <main class="signin">
      <h1>ferrokube</h1>
      {known.map((issuer) => (
        <p>
          <button type="button" class="main" onClick={() => leaveFor(issuer).catch((error) => setError(message(error)))}>
            Sign in with <Text of={issuer.issuer.replace(/^https:\/\//, "")} max={80} />
          </button>
        </p>
      ))}
      <form onSubmit={submit}>
        <label>
          Bearer token
          <input type="password" value={token} autocomplete="off" spellcheck={false} autoFocus onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={busy || !token.trim()}>Sign in</button>
        {error && <p class="bad" role="alert">{error}</p>}
      </form>
      <ul>
        <li>A service account's token: <code>kubectl create token NAME</code></li>
        <li>On the server's machine, <code>ferrokube console</code> prints a link that signs the administrator in, once</li>
        <li>A client certificate in this browser, or <code>kubectl proxy</code>, needs no signing in</li>
      </ul>
    </main>
  );
}
