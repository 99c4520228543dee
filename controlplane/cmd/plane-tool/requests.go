package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	pollEvery     = 20 * time.Millisecond
	oneRequest    = 2 * time.Second
	answerMaximum = 1 << 20
)

// server is who is asked and as whom, as flags.
type server struct {
	url, authority, certificate, key string
	seconds                          float64
}

func newServer(name string) (*server, *flag.FlagSet) {
	asked := &server{}
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	flags.StringVar(&asked.url, "url", "", "https://host:port")
	flags.StringVar(&asked.authority, "ca", "", "file: who signed the server's certificate")
	flags.StringVar(&asked.certificate, "cert", "", "file: our certificate")
	flags.StringVar(&asked.key, "key", "", "file: our key")
	flags.Float64Var(&asked.seconds, "seconds", 30, "give up after this time")
	return asked, flags
}

func (asked *server) client() (*http.Client, error) {
	pem, err := os.ReadFile(asked.authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", asked.authority)
	}
	own, err := tls.LoadX509KeyPair(asked.certificate, asked.key)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: oneRequest,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
		}},
	}, nil
}

// wait asks for each path in turn until the server answers 200, then says nothing. When the time is
// over, the last answer is the error.
func wait(arguments []string) error {
	asked, flags := newServer("wait")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	client, err := asked.client()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(time.Duration(asked.seconds * float64(time.Second)))
	for _, path := range flags.Args() {
		for {
			_, err := call(client, http.MethodGet, asked.url+path, nil)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("not ready after %g s: %w", asked.seconds, err)
			}
			time.Sleep(pollEvery)
		}
	}
	return nil
}

// compact makes etcd forget every revision before the newest, and prints the newest.
func compact(arguments []string) error {
	asked, flags := newServer("compact")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	client, err := asked.client()
	if err != nil {
		return err
	}
	// Any key will do: the answer's header names the newest revision.
	found, err := call(client, http.MethodPost, asked.url+"/v3/kv/range", map[string]any{"key": "AA=="})
	if err != nil {
		return err
	}
	var answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := json.Unmarshal(found, &answer); err != nil {
		return err
	}
	order := map[string]any{"revision": answer.Header.Revision, "physical": true}
	if _, err := call(client, http.MethodPost, asked.url+"/v3/kv/compaction", order); err != nil {
		return err
	}
	fmt.Println(answer.Header.Revision)
	return nil
}

func call(client *http.Client, method, url string, content any) ([]byte, error) {
	var body io.Reader
	if content != nil {
		encoded, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	asking, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(asking)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMaximum))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status + ": " + string(bytes.TrimSpace(text)))
	}
	return text, nil
}
