// Converts objects of cluster-api as its webhook does.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1beta2 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1beta2 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
)

type line struct {
	Definition string          `json:"definition"`
	From       string          `json:"from"`
	To         string          `json:"to"`
	Object     json.RawMessage `json:"object"`
	Converted  json.RawMessage `json:"converted,omitempty"`
	Error      string          `json:"error,omitempty"`
}

func pair(definition string) (conversion.Convertible, conversion.Hub) {
	switch definition {
	case "ipaddresses.ipam.cluster.x-k8s.io":
		return &ipamv1beta1.IPAddress{}, &ipamv1beta2.IPAddress{}
	case "ipaddressclaims.ipam.cluster.x-k8s.io":
		return &ipamv1beta1.IPAddressClaim{}, &ipamv1beta2.IPAddressClaim{}
	case "clusterresourcesets.addons.cluster.x-k8s.io":
		return &addonsv1beta1.ClusterResourceSet{}, &addonsv1beta2.ClusterResourceSet{}
	case "clusterresourcesetbindings.addons.cluster.x-k8s.io":
		return &addonsv1beta1.ClusterResourceSetBinding{}, &addonsv1beta2.ClusterResourceSetBinding{}
	}
	panic(definition)
}

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var l line
		check(json.Unmarshal(in.Bytes(), &l))
		spoke, hub := pair(l.Definition)
		var err error
		var made any = hub
		if l.From == "v1beta1" {
			check(json.Unmarshal(l.Object, spoke))
			err = spoke.ConvertTo(hub)
		} else {
			made = spoke
			check(json.Unmarshal(l.Object, hub))
			err = spoke.ConvertFrom(hub)
		}
		if err != nil {
			l.Error = err.Error()
		} else {
			l.Converted, err = json.Marshal(made)
			check(err)
		}
		check(out.Encode(l))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
