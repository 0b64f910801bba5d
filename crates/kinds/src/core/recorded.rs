//! The core kinds against what a real server answered.

use super::*;
use crate::common::recorded::check;

macro_rules! cases {
    ($file:literal) => {
        include_str!(concat!("../../data/cases/", $file, ".txt"))
    };
}

#[test]
fn limits() {
    check(LimitRange, "v1 LimitRange", cases!("limitrange"));
    check(ResourceQuota, "v1 ResourceQuota", cases!("resourcequota"));
}

#[test]
fn endpoints() {
    check(Endpoints, "v1 Endpoints", cases!("endpoints"));
}

#[test]
fn nodes() {
    check(Node, "v1 Node", cases!("node"));
}

#[test]
fn events() {
    let events = crate::events::Event::new(crate::events::DEFAULT_TTL);
    check(events, "v1 Event", cases!("event"));
}

#[test]
fn claims() {
    for text in [cases!("persistentvolumeclaim"), cases!("persistentvolumeclaim-source")] {
        check(PersistentVolumeClaim, "v1 PersistentVolumeClaim", text);
    }
}

#[test]
fn volumes() {
    for text in [
        cases!("volume-awselasticblockstore"),
        cases!("volume-azuredisk"),
        cases!("volume-azurefile"),
        cases!("volume-cephfs"),
        cases!("volume-cinder"),
        cases!("volume-csi"),
        cases!("volume-fc-2"),
        cases!("volume-fc"),
        cases!("volume-flexvolume"),
        cases!("volume-flocker"),
        cases!("volume-gcepersistentdisk"),
        cases!("volume-glusterfs"),
        cases!("volume-hostpath"),
        cases!("volume-iscsi"),
        cases!("volume-local"),
        cases!("volume-nfs"),
        cases!("volume-quobyte"),
        cases!("volume-rbd"),
        cases!("volume-scaleio"),
        cases!("volume-storageos"),
    ] {
        check(PersistentVolume, "v1 PersistentVolume", text);
    }
}
