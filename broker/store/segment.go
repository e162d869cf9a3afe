package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A frame is what one commit puts down: the records of everybody who waited.
//
//	magic   4 bytes
//	length  4 bytes, of the payload
//	number  8 bytes, one more than that of the frame before
//	sum     4 bytes, CRC-32C of length, number and payload
//	payload records, each behind its length as a uvarint
//
// A frame is written only after the one before it was synced. So a broken frame
// with a whole one behind it was whole once: that is damage, not a torn end.
const (
	frameMagic  = 0x31714b6f
	frameHeader = 20
	maxFrame    = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealFrame fills in the header of a frame whose payload is there.
func sealFrame(frame []byte, number uint64) {
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(frame[8:], number)
	binary.LittleEndian.PutUint32(frame[16:], frameSum(frame[4:16], payload))
}

func frameSum(lengthAndNumber, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(lengthAndNumber, castagnoli), castagnoli, payload)
}

// frameLength returns the payload's length that a header names.
func frameLength(header []byte) int { return int(binary.LittleEndian.Uint32(header[4:])) }

// parseFrame reads the frame at the start of data.
func parseFrame(data []byte) (payload []byte, number uint64, ok bool) {
	if len(data) < frameHeader || binary.LittleEndian.Uint32(data) != frameMagic {
		return nil, 0, false
	}
	n := frameLength(data)
	if n > maxFrame || n > len(data)-frameHeader {
		return nil, 0, false
	}
	payload = data[frameHeader : frameHeader+n]
	if frameSum(data[4:16], payload) != binary.LittleEndian.Uint32(data[16:]) {
		return nil, 0, false
	}
	return payload, binary.LittleEndian.Uint64(data[8:]), true
}

// segment is one file of the log. Its fields belong to Store.mu, but for file,
// which may be read by anyone: a reader that finds it closed looks again where
// its entry is now.
type segment struct {
	first uint64 // number of its first frame, and its name
	path  string
	file  *os.File
	size  int64
	live  int   // entries whose newest record is here
	bytes int64 // size of those records
}

const segmentSuffix = ".log"

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", first, segmentSuffix))
}

// listSegments returns the first frame numbers of the segment files in dir, in
// order.
func listSegments(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var firsts []uint64
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), segmentSuffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(name, 16, 64)
		if err != nil || len(name) != 16 {
			return nil, fmt.Errorf("%s: this is no segment's name: %w", filepath.Join(dir, f.Name()), ErrDamaged)
		}
		firsts = append(firsts, n)
	}
	slices.Sort(firsts)
	return firsts, nil
}

// createSegment makes the file of a new segment, whose name survives a loss of
// power.
func createSegment(dir string, first uint64) (*segment, error) {
	path := segmentPath(dir, first)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("make segment %s: %w", path, err), f.Close())
	}
	return &segment{first: first, path: path, file: f}, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
