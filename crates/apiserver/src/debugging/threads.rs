//! The server's threads, for `/debug/pprof/threadcreate`.

use std::path::Path;

/// A line for each thread: its number, state, CPU time and name.
pub fn list() -> std::io::Result<String> {
    let mut lines = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let number = task.file_name().to_string_lossy().into_owned();
        // A thread that has ended in the meantime is left out.
        if let Some(line) = describe(&task.path()) {
            lines.push(format!("{number} {line}"));
        }
    }
    lines.sort();
    Ok(format!("threadcreate profile: total {}\n{}\n", lines.len(), lines.join("\n")))
}

fn describe(task: &Path) -> Option<String> {
    let read = |file: &str| std::fs::read_to_string(task.join(file)).ok();
    let name = read("comm")?;
    // The state is the first field after the name, which is in parentheses and may have any character.
    let stat = read("stat")?;
    let state = stat.rsplit_once(") ")?.1.split(' ').next()?.to_string();
    let on_cpu_nanos: u64 = read("schedstat")?.split(' ').next()?.parse().ok()?;
    Some(format!("{state} {} ms {}", on_cpu_nanos / 1_000_000, name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_is_listed() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = std::sync::mpsc::channel::<()>();
        // A thread has its name when it runs, not when it is made.
        let run = move || started.send(()).map(|()| receiver.recv());
        let waits = std::thread::Builder::new().name("waits".into()).spawn(run).unwrap();
        has_started.recv().unwrap();
        let text = list().unwrap();
        assert!(text.starts_with("threadcreate profile: total "), "{text}");
        assert!(text.lines().any(|line| line.ends_with(" ms waits")), "{text}");
        drop(sender);
        let _ = waits.join().unwrap();
    }
}
