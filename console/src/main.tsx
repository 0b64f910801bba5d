// The frame around the pages: signing in, navigation, keys, theme.
import { Component, type ComponentChildren, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { message, onSignedOut } from "./api";
import { ClientPage } from "./clients";
import { ExtensionsPage } from "./extensions";
import { FindBox, FindPage } from "./find";
import { Help, useKeys } from "./keys";
import { NowPage } from "./now";
import { ObjectPage } from "./object";
import { CollectionPage, KindsPage } from "./objects";
import { SignIn, type Who, signOut, whoAmI } from "./signin";
import { Empty, Text } from "./ui";

interface Place {
  parts: string[];
  params: URLSearchParams;
}

/** The page that the address names, so that links can be shared. */
function place(): Place {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const decode = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { parts: path.split("/").filter(Boolean).map(decode), params: new URLSearchParams(search) };
}

function usePlace(): Place {
  const [now, set] = useState(place);
  useEffect(() => {
    const changed = () => {
      set(place());
      window.scrollTo(0, 0);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return now;
}

function Page({ at }: { at: Place }) {
  const [page = "now", group = "", resource = "", namespace = "", name] = at.parts;
  const real = group === "core" ? "" : group;
  switch (page) {
    case "now":
      return <NowPage />;
    case "client":
      return <ClientPage params={at.params} />;
    case "find":
      return <FindPage text={at.params.get("q") ?? ""} />;
    case "extensions":
      return <ExtensionsPage tab={group} />;
    case "objects":
      if (!resource) return <KindsPage />;
      if (name === undefined) return <CollectionPage key={`${group}/${resource}/${namespace}`} group={real} resource={resource} namespace={namespace} params={at.params} />;
      return <ObjectPage key={at.parts.join("/")} group={real} resource={resource} namespace={namespace === "-" ? "" : namespace} name={name} tab={at.params.get("tab") ?? ""} />;
    default:
      return <main><Empty>There is no such page.</Empty></main>;
  }
}

/** An answer that is not what it should be, of a broken extension server for example, costs one page, not the program. */
class Boundary extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  override componentDidCatch(error: unknown) {
    this.setState({ error });
  }

  render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <main>
        <p class="bad" role="alert">The page cannot show what the server sent. <Text of={message(this.state.error)} /></p>
      </main>
    );
  }
}

const THEME = "ferrokube-console-theme";

function setTheme(theme: string | null) {
  if (theme) document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("console-theme"));
}

function Frame({ who }: { who: Who }) {
  const at = usePlace();
  const [help, setHelp] = useState(false);
  const [theme, choose] = useState(() => localStorage.getItem(THEME) ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
  useKeys(() => setHelp((shown) => !shown));
  useEffect(() => setTheme(theme), [theme]);
  const other = theme === "dark" ? "light" : "dark";
  const current = at.parts[0] ?? "now";
  const tab = (name: string, label: string) => (
    <a href={`#/${name}`} aria-current={current === name || (name === "now" && current === "client") ? "page" : undefined}>
      {label}
    </a>
  );
  return (
    <>
      <header>
        <a class="brand" href="#/now">ferrokube</a>
        <nav aria-label="Pages">
          {tab("now", "Now")}
          {tab("objects", "Objects")}
          {tab("extensions", "Extensions")}
        </nav>
        <FindBox />
        <span class="who">
          <Text of={who.user} max={60} />
          <button type="button" onClick={() => (localStorage.setItem(THEME, other), choose(other))} aria-label={`${other} colours`} title={`${other} colours`}>◐</button>
          <button type="button" onClick={() => setHelp(true)} aria-label="Keys" title="Keys (?)">?</button>
          {who.session && <button type="button" onClick={signOut}>Sign out</button>}
        </span>
      </header>
      <Boundary key={location.hash}>
        <Page at={at} />
      </Boundary>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

function App() {
  const [who, setWho] = useState<Who | undefined>();
  const [known, setKnown] = useState(false);
  const [why, setWhy] = useState("");
  const ask = () =>
    whoAmI().then(
      (who) => (setWho(who), setKnown(true), who && setWhy("")),
      (error) => (setWhy(message(error)), setWho(undefined), setKnown(true)),
    );
  useEffect(() => {
    setTheme(localStorage.getItem(THEME));
    onSignedOut.call = () => {
      setWho((who) => {
        if (who) setWhy("The session has ended. Sign in again.");
        return undefined;
      });
    };
    void ask();
  }, []);
  if (!known) return null;
  return who ? <Frame who={who} /> : <SignIn key={why} why={why} done={ask} />;
}

render(<App />, document.body);
