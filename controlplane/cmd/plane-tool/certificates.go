package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// Long enough for every test; short enough that a forgotten key is worth nothing.
	lifetime = 30 * 24 * time.Hour
	// Clocks of machines differ, and so does the clock of one machine after it slept.
	backdated = time.Hour
)

// request is what stands on standard input: who signs, and whom.
type request struct {
	Folder      string                `json:"folder"`
	Authorities map[string][]identity `json:"authorities"` // by name; each signs its identities
	KeyPairs    []string              `json:"key_pairs"`   // bare keys: NAME.key and NAME.pub
}

type identity struct {
	Name   string   `json:"name"`   // of the files
	User   string   `json:"user"`   // common name
	Groups []string `json:"groups"` // organizations
	Hosts  []string `json:"hosts"`  // names and addresses; with some it may serve
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// certificates writes NAME.crt and NAME.key (0600, PEM) for every authority and identity asked for.
func certificates([]string) error {
	var asked request
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	for name, identities := range asked.Authorities {
		signer, err := newAuthority(asked.Folder, name)
		if err != nil {
			return err
		}
		for _, who := range identities {
			if err := signer.sign(asked.Folder, who); err != nil {
				return err
			}
		}
	}
	for _, name := range asked.KeyPairs {
		if err := writeKeyPair(asked.Folder, name); err != nil {
			return err
		}
	}
	return nil
}

func newAuthority(folder, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(encoded)
	if err != nil {
		return nil, err
	}
	return &authority{parsed, key}, writePair(folder, name, encoded, key)
}

func (signer *authority) sign(folder string, who identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: who.User, Organization: who.Groups})
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	// etcd's JSON gateway calls its own server with the server's certificate: both usages.
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(who.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range who.Hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	encoded, err := x509.CreateCertificate(
		rand.Reader, template, signer.certificate, key.Public(), signer.key)
	if err != nil {
		return err
	}
	return writePair(folder, who.Name, encoded, key)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-backdated),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func writePair(folder, name string, certificate []byte, key *ecdsa.PrivateKey) error {
	if err := writePEM(folder, name+".crt", "CERTIFICATE", certificate); err != nil {
		return err
	}
	return writeKey(folder, name, key)
}

func writeKeyPair(folder, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(folder, name+".pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(folder, name, key)
}

func writeKey(folder, name string, key *ecdsa.PrivateKey) error {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(folder, name+".key", "PRIVATE KEY", encoded)
}

// writePEM refuses to overwrite: two planes in one folder would sign past each other.
func writePEM(folder, name, kind string, content []byte) error {
	path := filepath.Join(folder, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := pem.Encode(file, &pem.Block{Type: kind, Bytes: content}); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
