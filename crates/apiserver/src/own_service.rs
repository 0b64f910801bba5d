//! Settings of the `kubernetes` Service: where its address comes from, and how servers agree on its Endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kinds::core::service::allocation::PortRange;
use object::names::{Cidr, parse_cidr_sloppy};
use standalone::{Advertised, EndpointReconciler};

use crate::Config;
use crate::flags::{Row, rows};

/// The flags that [`OwnServiceConfig`] takes.
pub(crate) const FLAGS: &[Row] = rows! { own = &mut config.own_service, |config, given|
    "apiserver-count" => match given.last().parse::<usize>() {
        Ok(count) if count > 0 => own.apiserver_count = count,
        _ => return Err(format!("--apiserver-count should be a positive number, but value '{}' provided", given.last())),
    },
    "endpoint-reconciler-type" => own.reconciler = given.last().to_string(),
    "kubernetes-service-node-port" => {
        let why = "must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP";
        own.node_port = given.read(why).map_err(|why| format!("--kubernetes-service-node-port {why}"))?;
    },
    "service-cluster-ip-range" => {
        own.cluster_ip_range = given.last().to_string();
        own.networks()?;
    },
    "service-node-port-range" => own.node_port_range = PortRange::parse(given.last())?,
};

/// Stand-ins for the address of a server that listens on loopback only, which Endpoints may not have: documentation
/// addresses (RFC 5737, RFC 3849).
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const NOWHERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// Settings with kube-apiserver's defaults.
#[derive(Clone, Debug)]
pub struct OwnServiceConfig {
    /// `--service-cluster-ip-range`: one network, or one of each IP family separated by a comma.
    pub cluster_ip_range: String,
    /// Where ports of services that are reachable through every node come from.
    pub node_port_range: PortRange,
    /// `--kubernetes-service-node-port`; 0: the Service has none.
    pub node_port: u16,
    /// `--endpoint-reconciler-type`.
    pub reconciler: String,
    /// `--apiserver-count`, for the reconciler `master-count`.
    pub apiserver_count: usize,
}

impl Default for OwnServiceConfig {
    fn default() -> OwnServiceConfig {
        OwnServiceConfig {
            cluster_ip_range: "10.0.0.0/24".into(),
            node_port_range: PortRange::DEFAULT,
            node_port: 0,
            reconciler: "lease".into(),
            apiserver_count: 1,
        }
    }
}

impl OwnServiceConfig {
    /// How servers agree on the Endpoints.
    pub fn endpoint_reconciler(&self) -> Result<EndpointReconciler, String> {
        match self.reconciler.as_str() {
            "" | "lease" => Ok(EndpointReconciler::Lease),
            "master-count" => Ok(EndpointReconciler::MasterCount(self.apiserver_count)),
            "none" => Ok(EndpointReconciler::None),
            other => Err(format!("--endpoint-reconciler-type: {other} is not one of master-count, lease, none")),
        }
    }

    /// The networks that services have their addresses from, at most one of each IP family.
    pub fn networks(&self) -> Result<Vec<Cidr>, String> {
        let texts: Vec<&str> = self.cluster_ip_range.split(',').collect();
        if texts.len() > 2 {
            return Err("must not contain more than two entries".into());
        }
        let parse = |(index, text): (usize, &&str)| {
            parse_cidr_sloppy(text)
                .ok_or_else(|| format!("entry {index}, {text}, is not a valid cidr such as 10.0.0.0/24"))
        };
        let networks: Vec<Cidr> = texts.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        match networks.as_slice() {
            [one, two] if one.address.is_ipv4() == two.address.is_ipv4() => {
                Err("[0] and [1] must be of different IP family".into())
            }
            _ => Ok(networks),
        }
    }

    /// The networks in their usual form.
    pub fn ranges(&self) -> Result<Vec<String>, String> {
        let networks = self.networks().map_err(|why| format!("--service-cluster-ip-range: {why}"))?;
        Ok(networks.iter().map(|network| format!("{}/{}", network.network(), network.prefix_length)).collect())
    }
}

/// Where the cluster finds a server that listens on `address`.
pub fn advertised(config: &Config, address: SocketAddr) -> Result<Advertised, String> {
    let own_service = &config.own_service;
    let range = |why: String| format!("--service-cluster-ip-range: {why}");
    let networks = own_service.networks().map_err(range)?;
    let first = networks.first().ok_or_else(|| range("must contain at least one valid cidr".into()))?.network();
    let too_small = || range(format!("{} has no address for the kubernetes Service", own_service.cluster_ip_range));
    // The Service has the second address of the range.
    let service_address = match first {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4).checked_add(1).ok_or_else(too_small)?)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).checked_add(1).ok_or_else(too_small)?)),
    };
    let port = own_service.node_port;
    if port > 0 && !own_service.node_port_range.contains(port) {
        return Err(format!(
            "kubernetes service node port range {} doesn't contain {port}",
            own_service.node_port_range
        ));
    }
    let own = config.advertise_address.unwrap_or(address.ip());
    let own = match own {
        usable if !own.is_loopback() && !own.is_unspecified() => usable,
        _ if service_address.is_ipv6() => IpAddr::V6(NOWHERE_V6),
        _ => IpAddr::V4(NOWHERE_V4),
    };
    if own_service.endpoint_reconciler()? != EndpointReconciler::None && own.is_ipv4() != service_address.is_ipv4() {
        let family = own_service.ranges()?.into_iter().next().unwrap_or_default();
        return Err(format!("service IP family \"{family}\" must match public address family \"{own}\""));
    }
    let service_ranges = own_service.ranges()?;
    Ok(Advertised { address: own, port: address.port(), service_address, service_ranges, node_port: port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Given, set};

    fn config(flags: &[(&str, &str)]) -> Result<Config, String> {
        let mut config = Config::default();
        for (name, value) in flags {
            set(&mut config, name, Given(&[value.to_string()]))?;
        }
        Ok(config)
    }

    fn advertise(flags: &[(&str, &str)]) -> Result<Advertised, String> {
        advertised(&config(flags)?, "127.0.0.1:6443".parse().unwrap())
    }

    #[test]
    fn the_first_network_decides_the_family() {
        for (ranges, service, own, networks) in [
            ("10.0.0.0/24", "10.0.0.1", "192.0.2.2", &["10.0.0.0/24"][..]),
            ("10.0.0.7/24,fd00::/112", "10.0.0.1", "192.0.2.2", &["10.0.0.0/24", "fd00::/112"]),
            ("fd00::/112,10.0.0.0/24", "fd00::1", "2001:db8::2", &["fd00::/112", "10.0.0.0/24"]),
        ] {
            let got = advertise(&[("service-cluster-ip-range", ranges)]).unwrap();
            assert_eq!((got.service_address.to_string(), got.address.to_string()), (service.into(), own.into()));
            assert_eq!(got.service_ranges, networks);
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        for (flags, why) in [
            (&[("service-cluster-ip-range", "10.0.0.0/24,10.0.1.0/24")][..], "different IP family"),
            (&[("service-cluster-ip-range", "10.0.0.0/24,fd00::/112,fd01::/112")], "more than two"),
            (&[("service-cluster-ip-range", "10.0.0.0")], "not a valid cidr"),
            (&[("endpoint-reconciler-type", "magic")], "magic is not one of"),
            (&[("apiserver-count", "0")], "positive number"),
            (&[("kubernetes-service-node-port", "80")], "doesn't contain 80"),
            (&[("kubernetes-service-node-port", "-1")], "between 0 and 65535"),
        ] {
            let error = advertise(flags).unwrap_err();
            assert!(error.contains(why), "{flags:?}: {error}");
        }
        assert_eq!(advertise(&[("kubernetes-service-node-port", "30443")]).unwrap().node_port, 30443);
        let counted = config(&[("endpoint-reconciler-type", "master-count"), ("apiserver-count", "3")]).unwrap();
        assert_eq!(counted.own_service.endpoint_reconciler(), Ok(EndpointReconciler::MasterCount(3)));
    }
}
