//! The cache key must change with everything that changes a binary, and with nothing else.

use super::*;

const GO_MOD: &str =
    "module example\n\nrequire (\n\tk8s.io/kubernetes v1.37.1\n)\n\nreplace k8s.io/api => k8s.io/api v0.37.1\n";

/// A conformance folder with two components in its main module and one with a module of its own.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("ferrokube-components-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let tree = Self(root);
        tree.write("go.mod", GO_MOD);
        tree.write("go.sum", "sums");
        tree.write("cmd/kubectl/main.go", "package main");
        tree.write("cmd/suite/suite_test.go", "package suite");
        tree.write("etcd/go.mod", "module etcd\n\nrequire go.etcd.io/etcd/server/v3 v3.6.16\n");
        tree.write("etcd/go.sum", "other sums");
        tree.write("etcd/main.go", "package main");
        tree
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn component(&self, name: &str) -> Component {
        Component::find(&self.0, name).unwrap()
    }

    /// Where each component's binary belongs.
    fn binaries(&self, toolchain: &str) -> Vec<PathBuf> {
        let place = |name| self.component(name).binary(Path::new("cache"), toolchain).unwrap();
        ["kubectl", "suite", "etcd"].map(place).to_vec()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes one file and says which of kubectl, suite and etcd would be built anew.
fn check(path: &str, contents: &str, expected: [bool; 3]) {
    let tree = Tree::new(&path.replace('/', "-"));
    let before = tree.binaries("go1");
    assert_eq!(before, tree.binaries("go1"), "the key of the same tree is stable");
    tree.write(path, contents);
    let changed: Vec<bool> = before.iter().zip(tree.binaries("go1")).map(|(old, new)| *old != new).collect();
    assert_eq!(changed, expected, "after writing {path}");
}

#[test]
fn a_change_rebuilds_what_it_reaches() {
    check("go.sum", "new sums", [true, true, false]);
    check("go.mod", "module example\n", [true, true, false]);
    check("cmd/kubectl/main.go", "package main // changed", [true, false, false]);
    check("cmd/kubectl/more.go", "package main", [true, false, false]);
    check("cmd/kubectl/chart/values.yaml", "embedded: true", [true, false, false]);
    check("cmd/suite/suite_test.go", "package suite // changed", [false, true, false]);
    check("etcd/main.go", "package main // changed", [false, false, true]);
    check("etcd/go.sum", "new sums", [false, false, true]);
    check("README.md", "prose", [false, false, false]);
    check("cmd/kubectl/.main.go.swp", "an editor's", [false, false, false]);
}

#[test]
fn another_toolchain_is_another_build() {
    let tree = Tree::new("toolchain");
    assert_ne!(tree.binaries("go1.26.1"), tree.binaries("go1.26.2"));
}

#[test]
fn a_key_depends_on_contents_and_not_on_order() {
    let key = |inputs: &[(&str, &str)]| {
        let owned: Vec<_> = inputs.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
        cache_key(&owned)
    };
    assert_eq!(key(&[("a", "1"), ("b", "2")]), key(&[("b", "2"), ("a", "1")]));
    assert_ne!(key(&[("a", "1"), ("b", "2")]), key(&[("a", "2"), ("b", "1")]));
    assert_ne!(key(&[("a", "12"), ("b", "")]), key(&[("a", "1"), ("b", "2")]));
    assert_ne!(key(&[("ab", "c")]), key(&[("a", "bc")]));
    assert_eq!(key(&[("go.mod", "module x")]).len(), 16);
}

#[test]
fn the_binary_has_the_component_s_name() {
    let tree = Tree::new("names");
    let binary = tree.component("etcd").binary(Path::new("cache"), "go1").unwrap();
    assert_eq!(binary.file_name(), Some(OsStr::new("etcd")));
    assert!(binary.starts_with("cache/etcd"));
    let unknown = Component::find(&tree.0, "kubelet").unwrap_err();
    assert_eq!(unknown, "conformance has no component named \"kubelet\"");
}

#[test]
fn a_folder_says_what_is_built_of_it() {
    let tree = Tree::new("verbs");
    assert_eq!(tree.component("kubectl").arguments().unwrap()[0], "build");
    assert_eq!(tree.component("suite").arguments().unwrap()[..2], ["test", "-c"]);
    tree.write("operator/go.mod", "module operator\n\ntool example.com/a/cmd/operator\n");
    tree.write("operator/go.sum", "sums");
    assert_eq!(tree.component("operator").arguments().unwrap()[0], "build");
    assert_eq!(tool(&tree.component("operator").go_mod().unwrap()), Some("example.com/a/cmd/operator"));
}

#[test]
fn the_release_is_stamped_from_go_mod() {
    let flags = linker_flags(GO_MOD);
    assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.37.1"), "{flags}");
    assert!(flags.contains("-X k8s.io/component-base/version.gitMinor=37 "), "{flags}");
    assert_eq!(linker_flags("module etcd\n\nrequire go.etcd.io/etcd/server/v3 v3.6.16\n"), "-s -w");
    assert_eq!(required_version("require k8s.io/kubernetes v1.38.0\n", "k8s.io/kubernetes"), Some("v1.38.0"));
    assert_eq!(required_version("\tk8s.io/api => k8s.io/api v0.37.1\n", "k8s.io/api"), None);
}

#[test]
fn the_cache_is_where_the_environment_says() {
    let root = |set: &[(&str, &str)]| {
        cache_root(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value)))
    };
    let home = ("HOME", "/home/me");
    let xdg = ("XDG_CACHE_HOME", "/cache");
    assert_eq!(root(&[home, xdg, ("FERROKUBE_TOOLS", "/tools")]), Ok(PathBuf::from("/tools")));
    assert_eq!(root(&[home, xdg]), Ok(PathBuf::from("/cache/ferrokube/tools")));
    assert_eq!(root(&[home, ("XDG_CACHE_HOME", "")]), Ok(PathBuf::from("/home/me/.cache/ferrokube/tools")));
    assert!(root(&[]).is_err());
}

#[test]
fn old_builds_make_room() {
    let tree = Tree::new("old-builds");
    for number in 0..6 {
        tree.write(&format!("cache/kubectl/{number}/kubectl"), "binary");
    }
    drop_old_builds(&tree.0.join("cache/kubectl"), &tree.0.join("cache/kubectl/0/kubectl"));
    assert!(tree.0.join("cache/kubectl/0/kubectl").is_file(), "the build just made stays");
    assert_eq!(fs::read_dir(tree.0.join("cache/kubectl")).unwrap().count(), BUILDS_KEPT);
}
