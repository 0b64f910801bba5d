package main

import (
	"crypto"
	"crypto/dsa"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	_ "crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
)

// key is a key that signs, and how it stands in a certificate.
type key struct {
	signer crypto.Signer
	spki   []byte
	kind   string
}

func newKeys() []key {
	keys := []key{}
	add := func(signer crypto.Signer, kind string) {
		spki, err := x509.MarshalPKIXPublicKey(signer.Public())
		check(err)
		keys = append(keys, key{signer, spki, kind})
	}
	for range 4 {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		check(err)
		add(private, "ed25519")
	}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		check(err)
		add(private, "ecdsa")
	}
	for _, bits := range []int{512, 1024, 1032, 2048} {
		add(newRSA(bits, 65537), "rsa")
	}
	add(newRSA(1024, 3), "rsa")
	return keys
}

// newRSA makes a key of any size, which crypto/rsa does not.
func newRSA(bits int, exponent int64) *rsa.PrivateKey {
	e := big.NewInt(exponent)
	for {
		p, err := rand.Prime(rand.Reader, bits/2)
		check(err)
		q, err := rand.Prime(rand.Reader, bits-bits/2)
		check(err)
		one := big.NewInt(1)
		phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
		d := new(big.Int).ModInverse(e, phi)
		n := new(big.Int).Mul(p, q)
		if d != nil && n.BitLen() == bits && p.Cmp(q) != 0 {
			return &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: int(exponent)}, D: d, Primes: []*big.Int{p, q}}
		}
	}
}

// leafKeys are public keys of kinds that sign nothing, well formed or not.
func leafKeys() [][]byte {
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	check(err)
	x25519, err := x509.MarshalPKIXPublicKey(x.PublicKey())
	check(err)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	check(err)
	small, err := x509.MarshalPKIXPublicKey(&p224.PublicKey)
	check(err)
	offCurve := append([]byte{}, small...)
	offCurve[len(offCurve)-1] ^= 1
	type spki struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	made := func(oid asn1.ObjectIdentifier, parameters []byte, key []byte) []byte {
		der, err := asn1.Marshal(spki{
			pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.RawValue{FullBytes: parameters}},
			asn1.BitString{Bytes: key, BitLength: 8 * len(key)},
		})
		check(err)
		return der
	}
	marshal := func(value any) []byte {
		der, err := asn1.Marshal(value)
		check(err)
		return der
	}
	type parameters struct{ P, Q, G *big.Int }
	five := big.NewInt(5)
	good := marshal(parameters{five, five, five})
	bad := marshal(parameters{five, big.NewInt(-5), five})
	dsaOID, rsaOID := asn1.ObjectIdentifier{1, 2, 840, 10040, 4, 1}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	edOID, xOID := asn1.ObjectIdentifier{1, 3, 101, 112}, asn1.ObjectIdentifier{1, 3, 101, 110}
	ecOID, p256 := asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, marshal(asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7})
	null := []byte{5, 0}
	type rsaKey struct {
		N *big.Int
		E int
	}
	var _ dsa.Parameters
	return [][]byte{
		x25519, small, offCurve,
		made(asn1.ObjectIdentifier{1, 3, 101, 111}, nil, []byte{1}),
		made(dsaOID, good, marshal(five)), made(dsaOID, bad, marshal(five)), made(dsaOID, null, marshal(five)),
		made(dsaOID, good, []byte{1}),
		made(rsaOID, nil, marshal(rsaKey{five, 3})), made(rsaOID, null, marshal(rsaKey{five, 3})),
		made(rsaOID, null, marshal(rsaKey{big.NewInt(-5), 3})), made(rsaOID, null, marshal(rsaKey{five, -3})),
		made(rsaOID, null, []byte{1, 2, 3}), made(rsaOID, null, []byte{0x30, 0}),
		made(edOID, null, make([]byte, 32)), made(edOID, nil, make([]byte, 31)), made(edOID, nil, make([]byte, 32)),
		made(xOID, null, make([]byte, 32)), made(xOID, nil, make([]byte, 33)),
		made(ecOID, p256, append([]byte{4}, make([]byte, 64)...)), made(ecOID, p256, append([]byte{2}, make([]byte, 32)...)),
		made(ecOID, p256, append([]byte{4}, make([]byte, 63)...)), made(ecOID, p256, nil),
		made(ecOID, null, []byte{4}), made(ecOID, marshal(asn1.ObjectIdentifier{1, 2, 3}), []byte{4}),
	}
}
