//! The fault script: what happens to which process when, decided by a seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use storage_etcd::testing::Cluster;

use crate::balancer::Balancer;
use crate::links::Links;
use crate::replicas::Replicas;

/// How long a server may take to stop when asked, and to be ready after a start.
const PATIENCE: Duration = Duration::from_secs(300);

/// How many etcd members there are.
pub const MEMBERS: usize = 3;

/// The processes and the network between them and the clients.
pub struct World {
    pub etcd: Cluster,
    pub links: Links,
    pub replicas: Replicas,
    pub balancer: Balancer,
    pub count: usize,
    /// What was done how often.
    pub done: BTreeMap<&'static str, usize>,
    /// The longest time from SIGTERM to the end of a process.
    pub slowest_stop: Duration,
    pub began: Instant,
}

impl World {
    /// One fault after the other until the time is over; then everything is well again.
    pub async fn trouble(&mut self, duration: Duration, random: &mut StdRng) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < duration {
            pause(random, 300..2000).await;
            let n = random.random_range(0..self.count);
            match random.random_range(0..20) {
                0 | 1 => self.kill(n, random).await?,
                2 => self.freeze(n, random).await?,
                3 => self.cut_off(n, random).await,
                4 | 5 => self.kill_member(random).await,
                6 => self.hang_member(random).await,
                7 => self.fill_etcd(random).await?,
                8 => self.defragment(random).await?,
                9 => self.replace_member(random).await?,
                10 | 11 => self.change_clock(n, random).await?,
                12 | 13 => self.cut_off_from_etcd(n, random).await,
                14 => self.lose_quorum(random).await,
                15 => self.slow_member(random).await,
                16 => self.fill_disk(random).await?,
                _ => self.restart(n).await?,
            }
        }
        for n in 0..self.count {
            self.until_ready(n).await?;
        }
        Ok(())
    }

    /// Restarts all servers in order, one after the other, as an upgrade does.
    pub async fn rolling_restart(&mut self) -> Result<(), String> {
        for n in 0..self.count {
            self.restart(n).await?;
        }
        Ok(())
    }

    async fn kill(&mut self, n: usize, random: &mut StdRng) -> Result<(), String> {
        self.note("kill -9 of a server");
        self.replicas.kill(n);
        self.balancer.forget(n);
        pause(random, 100..1500).await;
        self.replicas.launch(n)?;
        if random.random_bool(0.5) { self.until_ready(n).await } else { Ok(()) }
    }

    async fn freeze(&mut self, n: usize, random: &mut StdRng) -> Result<(), String> {
        self.note("stop and continue of a server");
        self.replicas.freeze(n, true)?;
        pause(random, 200..4000).await;
        self.replicas.freeze(n, false)
    }

    async fn cut_off(&mut self, n: usize, random: &mut StdRng) {
        self.note("partition between clients and a server");
        self.balancer.cut_off(n, true);
        pause(random, 200..4000).await;
        self.balancer.cut_off(n, false);
    }

    async fn kill_member(&mut self, random: &mut StdRng) {
        self.note("kill -9 of an etcd member");
        let member = random.random_range(0..MEMBERS);
        self.etcd.kill(member);
        pause(random, 200..2000).await;
        tokio::task::block_in_place(|| self.etcd.revive(member));
    }

    async fn hang_member(&mut self, random: &mut StdRng) {
        self.note("stop and continue of an etcd member");
        let member = random.random_range(0..MEMBERS);
        self.etcd.hang(member);
        pause(random, 200..3000).await;
        self.etcd.go_on(member);
    }

    /// A server does not reach one member, or none.
    async fn cut_off_from_etcd(&mut self, n: usize, random: &mut StdRng) {
        let member = random.random_bool(0.5).then(|| random.random_range(0..MEMBERS));
        self.note(match member {
            Some(_) => "partition between a server and an etcd member",
            None => "partition between a server and all etcd members",
        });
        self.links.cut_off(n, member, true);
        pause(random, 200..6000).await;
        self.links.cut_off(n, member, false);
    }

    /// Most members are gone: the one that is left has no leader and can only say so.
    async fn lose_quorum(&mut self, random: &mut StdRng) {
        self.note("kill -9 of two etcd members of three");
        let left = random.random_range(0..MEMBERS);
        let others: Vec<usize> = (0..MEMBERS).filter(|member| *member != left).collect();
        others.iter().for_each(|member| self.etcd.kill(*member));
        pause(random, 200..3000).await;
        tokio::task::block_in_place(|| self.etcd.revive_all(&others));
    }

    /// A member gets on only a third of the time, as on a disk that is too slow.
    async fn slow_member(&mut self, random: &mut StdRng) {
        self.note("slow etcd member");
        let member = random.random_range(0..MEMBERS);
        for _ in 0..random.random_range(5..40) {
            self.etcd.hang(member);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.etcd.go_on(member);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The disk of a member is full, so that it ends when it needs more.
    async fn fill_disk(&mut self, random: &mut StdRng) -> Result<(), String> {
        let member = random.random_range(0..MEMBERS);
        if !tokio::task::block_in_place(|| self.etcd.set_disk_full(member, true))? {
            return Ok(());
        }
        pause(random, 500..4000).await;
        tokio::task::block_in_place(|| {
            self.etcd.set_disk_full(member, false)?;
            if !self.etcd.has_ended(member) {
                self.note("full disk of an etcd member that lived on");
                return Ok(());
            }
            self.note("full disk that ended an etcd member");
            self.etcd.kill(member);
            self.etcd.revive(member);
            Ok(())
        })
    }

    /// All members refuse writes; reads go on.
    async fn fill_etcd(&mut self, random: &mut StdRng) -> Result<(), String> {
        self.note("etcd without space");
        let member = random.random_range(0..MEMBERS);
        tokio::task::block_in_place(|| self.etcd.set_full(member, true))?;
        pause(random, 200..2000).await;
        tokio::task::block_in_place(|| self.etcd.set_full(member, false))
    }

    async fn defragment(&mut self, random: &mut StdRng) -> Result<(), String> {
        self.note("defragmentation of an etcd member");
        let member = random.random_range(0..MEMBERS);
        tokio::task::block_in_place(|| self.etcd.defragment(member))
    }

    async fn replace_member(&mut self, random: &mut StdRng) -> Result<(), String> {
        self.note("replaced etcd member");
        let member = random.random_range(0..MEMBERS);
        tokio::task::block_in_place(|| self.etcd.replace(member))
    }

    /// The wall clock of a server is wrong by up to an hour, for a while or until the next jump.
    async fn change_clock(&mut self, n: usize, random: &mut StdRng) -> Result<(), String> {
        if !self.replicas.set_clock(n, random.random_range(-3600..3600))? {
            return Ok(());
        }
        self.note("clock jump of a server");
        pause(random, 200..2000).await;
        if random.random_bool(0.5) {
            self.replicas.set_clock(n, 0)?;
        }
        Ok(())
    }

    async fn restart(&mut self, n: usize) -> Result<(), String> {
        self.note("restart of a server");
        self.until_ready(n).await?;
        self.replicas.terminate(n)?;
        let began = Instant::now();
        while !self.replicas.has_ended(n) {
            if began.elapsed() > PATIENCE {
                return Err(format!("server {n} does not stop"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.slowest_stop = self.slowest_stop.max(began.elapsed());
        self.balancer.forget(n);
        self.replicas.upgrade(n);
        self.replicas.launch(n)?;
        self.until_ready(n).await
    }

    pub async fn until_ready(&mut self, n: usize) -> Result<(), String> {
        let began = Instant::now();
        while !self.balancer.is_ready(n) {
            if began.elapsed() > PATIENCE {
                return Err(format!("server {n} does not become ready; see its log"));
            }
            // kube-apiserver ends when it cannot write to etcd at its start, and kubelets start it again.
            if self.replicas.has_ended(n) {
                self.note("end of a server without being asked");
                self.balancer.forget(n);
                self.replicas.launch(n)?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    fn note(&mut self, what: &'static str) {
        println!("{:.1} s: {what}", self.began.elapsed().as_secs_f64());
        *self.done.entry(what).or_default() += 1;
    }
}

async fn pause(random: &mut StdRng, milliseconds: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.random_range(milliseconds))).await;
}
