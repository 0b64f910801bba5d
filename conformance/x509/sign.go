package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
)

// algorithm is how something is signed: how that is called, and how it is done.
type algorithm struct {
	id    pkix.AlgorithmIdentifier
	kind  string
	hash  crypto.Hash
	isPSS bool
	// salt is the length of the salt in a PSS signature.
	salt int
}

func oid(numbers ...int) asn1.ObjectIdentifier { return numbers }

var (
	nullParameters = asn1.RawValue{FullBytes: []byte{5, 0}}
	none           = asn1.RawValue{}
)

func plain(kind string, hash crypto.Hash, parameters asn1.RawValue, numbers ...int) algorithm {
	return algorithm{id: pkix.AlgorithmIdentifier{Algorithm: numbers, Parameters: parameters}, kind: kind, hash: hash}
}

func pssAlgorithm(hash crypto.Hash, number, salt, saidSalt, trailer, mask int) algorithm {
	type parameters struct {
		Hash    pkix.AlgorithmIdentifier `asn1:"explicit,tag:0"`
		MGF     pkix.AlgorithmIdentifier `asn1:"explicit,tag:1"`
		Salt    int                      `asn1:"explicit,tag:2"`
		Trailer int                      `asn1:"optional,explicit,tag:3,default:1"`
	}
	hashID := func(number int) pkix.AlgorithmIdentifier {
		return pkix.AlgorithmIdentifier{Algorithm: oid(2, 16, 840, 1, 101, 3, 4, 2, number), Parameters: nullParameters}
	}
	maskHash, err := asn1.Marshal(hashID(mask))
	check(err)
	der, err := asn1.Marshal(parameters{
		hashID(number),
		pkix.AlgorithmIdentifier{Algorithm: oid(1, 2, 840, 113549, 1, 1, 8), Parameters: asn1.RawValue{FullBytes: maskHash}},
		saidSalt, trailer,
	})
	check(err)
	id := pkix.AlgorithmIdentifier{Algorithm: oid(1, 2, 840, 113549, 1, 1, 10), Parameters: asn1.RawValue{FullBytes: der}}
	return algorithm{id: id, kind: "rsa", hash: hash, isPSS: true, salt: salt}
}

// algorithms by the kind of key; the first ones are good.
var algorithms = map[string][]algorithm{
	"ed25519": {
		plain("ed25519", 0, none, 1, 3, 101, 112),
		plain("ed25519", 0, nullParameters, 1, 3, 101, 112),
	},
	"ecdsa": {
		plain("ecdsa", crypto.SHA256, none, 1, 2, 840, 10045, 4, 3, 2),
		plain("ecdsa", crypto.SHA384, none, 1, 2, 840, 10045, 4, 3, 3),
		plain("ecdsa", crypto.SHA512, none, 1, 2, 840, 10045, 4, 3, 4),
		plain("ecdsa", crypto.SHA256, nullParameters, 1, 2, 840, 10045, 4, 3, 2),
		plain("ecdsa", crypto.SHA1, none, 1, 2, 840, 10045, 4, 1),
		plain("ecdsa", crypto.SHA224, none, 1, 2, 840, 10045, 4, 3, 1),
	},
	"rsa": {
		plain("rsa", crypto.SHA256, nullParameters, 1, 2, 840, 113549, 1, 1, 11),
		plain("rsa", crypto.SHA384, nullParameters, 1, 2, 840, 113549, 1, 1, 12),
		plain("rsa", crypto.SHA512, nullParameters, 1, 2, 840, 113549, 1, 1, 13),
		pssAlgorithm(crypto.SHA256, 1, 32, 32, 1, 1),
		pssAlgorithm(crypto.SHA384, 2, 48, 48, 1, 2),
		plain("rsa", crypto.SHA256, none, 1, 2, 840, 113549, 1, 1, 11),
		plain("rsa", crypto.SHA1, nullParameters, 1, 2, 840, 113549, 1, 1, 5),
		plain("rsa", crypto.SHA1, nullParameters, 1, 3, 14, 3, 2, 29),
		plain("rsa", crypto.MD5, nullParameters, 1, 2, 840, 113549, 1, 1, 4),
		pssAlgorithm(crypto.SHA256, 1, 20, 20, 1, 1),
		pssAlgorithm(crypto.SHA256, 1, 20, 32, 1, 1),
		pssAlgorithm(crypto.SHA256, 1, 32, 32, 2, 1),
		pssAlgorithm(crypto.SHA256, 1, 32, 32, 1, 2),
	},
}

var digestInfo = map[crypto.Hash][]byte{
	crypto.MD5:    {0x30, 0x20, 0x30, 12, 6, 8, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 5, 5, 0, 4, 16},
	crypto.SHA1:   {0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 20},
	crypto.SHA256: {0x30, 0x31, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 32},
	crypto.SHA384: {0x30, 0x41, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2, 5, 0, 4, 48},
	crypto.SHA512: {0x30, 0x51, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3, 5, 0, 4, 64},
}

func (a algorithm) sign(with key, message []byte) []byte {
	if private, ok := with.signer.(ed25519.PrivateKey); ok {
		return ed25519.Sign(private, message)
	}
	hash := a.hash.New()
	hash.Write(message)
	sum := hash.Sum(nil)
	private, ok := with.signer.(*rsa.PrivateKey)
	if !ok {
		signature, err := with.signer.Sign(rand.Reader, sum, a.hash)
		check(err)
		return signature
	}
	size := private.Size()
	if a.isPSS && private.N.BitLen() >= 1024 {
		signature, err := rsa.SignPSS(rand.Reader, private, a.hash, sum, &rsa.PSSOptions{SaltLength: a.salt})
		if err == nil {
			return signature
		}
	}
	// By hand: crypto/rsa signs with no small keys.
	info := append(append([]byte{}, digestInfo[a.hash]...), sum...)
	encoded := make([]byte, size)
	if size < len(info)+11 {
		return encoded
	}
	encoded[1] = 1
	for at := 2; at < size-len(info)-1; at++ {
		encoded[at] = 0xff
	}
	copy(encoded[size-len(info):], info)
	signed := new(big.Int).Exp(new(big.Int).SetBytes(encoded), private.D, private.N)
	return signed.FillBytes(make([]byte, size))
}
