package goqueue

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"time"
)

// Messages in their stored form (docs/format.md), which is how producers send them: the broker copies these bytes.
const (
	hasHeaders      = 0x02
	tombstone       = 0x04
	transactional   = 0x20
	frameHeader     = 34
	sectionHeader   = 8
	delayedSection  = 1 << 31
	producerName    = "__producer"
	producerBytes   = 18
	markBytes       = 4 + len(producerName) + producerBytes
	keyBytesMax     = math.MaxUint16
	headersBytesMax = math.MaxUint16 - markBytes - 18
	frameVersion    = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OutgoingMessage is a message to be published.
type OutgoingMessage struct {
	Value []byte
	// Key: messages with the same key go to the same partition, in their order.
	Key     []byte
	Headers []Header
	// Partition is instead of the key; see [To].
	Partition *int32
	Priority  Priority
	// Delay or DeliverAt: deliver it so much later, or at this time.
	Delay     time.Duration
	DeliverAt time.Time
	// Tombstone deletes the key when the topic is compacted. It has no value.
	Tombstone bool
}

// To names a partition in an [OutgoingMessage].
func To(partition int32) *int32 { return &partition }

func (m *OutgoingMessage) isDelayed() bool { return m.Delay != 0 || !m.DeliverAt.IsZero() }

// frameParts are the parts of a frame, before its offset and its producer are known.
type frameParts struct {
	key, value []byte
	// headers are encoded, without their number.
	headers     []byte
	headerCount uint16
	priority    byte
	flags       byte
}

func (p *frameParts) size() int {
	return frameHeader + len(p.key) + len(p.value) + 2 + len(p.headers)
}

// partsOf checks a message, and takes it apart.
func partsOf(message *OutgoingMessage, sizeMax int, inTransaction bool) (frameParts, error) {
	parts := frameParts{key: message.Key, value: message.Value}
	if len(message.Key) > keyBytesMax {
		return parts, invalid("the key has %d bytes, %d is the most", len(message.Key), keyBytesMax)
	}
	if message.Tombstone {
		if len(message.Key) == 0 || len(message.Value) > 0 {
			return parts, invalid("a tombstone needs a key and has no value")
		}
		parts.flags |= tombstone
	}
	if inTransaction {
		parts.flags |= transactional
	}
	var found bool
	for stored, priority := range storedPriorities {
		if priority == message.Priority {
			parts.priority, found = byte(stored), true
		}
	}
	if !found {
		return parts, invalid("%d is not a priority", message.Priority)
	}
	return parts, parts.addHeaders(message, sizeMax)
}

func (p *frameParts) addHeaders(message *OutgoingMessage, sizeMax int) error {
	if message.isDelayed() {
		if err := p.addDue(message); err != nil {
			return err
		}
	}
	ours := len(p.headers)
	for _, one := range message.Headers {
		if strings.HasPrefix(one.Name, "__") {
			return invalid("%q is not a header name: __ is reserved", one.Name)
		}
		if len(one.Name) > math.MaxUint16 || len(one.Value) > math.MaxUint16 {
			return invalid("a header has more than 65,535 bytes")
		}
		p.addHeader(one.Name, one.Value)
	}
	own := len(p.headers) - ours
	if own > headersBytesMax {
		return invalid("the headers have %d bytes, %d is the most", own, headersBytesMax)
	}
	if size := len(p.key) + len(p.value) + own; size > sizeMax {
		failure := invalid("the message has %d bytes, the topic takes %d", size, sizeMax)
		failure.Code, failure.Hint = ErrMessageTooLarge, "send less, or raise max_message_bytes of the topic"
		return failure
	}
	return nil
}

func (p *frameParts) addHeader(name string, value []byte) {
	p.headers = binary.BigEndian.AppendUint16(p.headers, uint16(len(name)))
	p.headers = append(p.headers, name...)
	p.headers = binary.BigEndian.AppendUint16(p.headers, uint16(len(value)))
	p.headers = append(p.headers, value...)
	p.headerCount++
}

func (p *frameParts) addDue(message *OutgoingMessage) error {
	name, due := "__deliver_in", int64(message.Delay)
	if !message.DeliverAt.IsZero() {
		if message.Delay != 0 {
			return invalid("give Delay or DeliverAt")
		}
		name, due = "__deliver_at", message.DeliverAt.UnixNano()
	}
	if due < 0 {
		return invalid("the delivery time is not a time from now on")
	}
	p.addHeader(name, binary.BigEndian.AppendUint64(nil, uint64(due)))
	return nil
}

// mark of a batch: its retries are known again by it.
type mark struct {
	identity
	sequence uint32
}

// encodeSection returns the frames of one partition as a section of a request, the first one with the mark.
func encodeSection(partition int32, delayed bool, entries []entry, mark mark) []byte {
	size := markBytes
	for at := range entries {
		size += entries[at].parts.size()
	}
	place := uint32(partition)
	if delayed {
		place |= delayedSection
	}
	section := make([]byte, 0, sectionHeader+size)
	section = binary.BigEndian.AppendUint32(section, place)
	section = binary.BigEndian.AppendUint32(section, uint32(size))
	for at := range entries {
		var first []byte
		if at == 0 {
			first = mark.header(len(entries))
		}
		section = appendFrame(section, &entries[at].parts, first)
	}
	return section
}

func (m mark) header(count int) []byte {
	header := make([]byte, 0, markBytes)
	header = binary.BigEndian.AppendUint16(header, uint16(len(producerName)))
	header = append(header, producerName...)
	header = binary.BigEndian.AppendUint16(header, producerBytes)
	header = binary.BigEndian.AppendUint64(header, uint64(m.producerID))
	header = binary.BigEndian.AppendUint16(header, uint16(m.epoch))
	header = binary.BigEndian.AppendUint32(header, m.sequence)
	return binary.BigEndian.AppendUint32(header, uint32(count))
}

func appendFrame(target []byte, parts *frameParts, first []byte) []byte {
	start, count, flags := len(target), parts.headerCount, parts.flags
	if first != nil {
		count++
	}
	if count > 0 {
		flags |= hasHeaders
	}
	target = append(target, make([]byte, frameHeader)...)
	header := target[start:]
	header[0], header[1], header[2], header[3] = 'G', 'Q', frameVersion, flags
	header[24] = parts.priority
	binary.BigEndian.PutUint16(header[26:], uint16(len(parts.key)))
	binary.BigEndian.PutUint32(header[28:], uint32(len(parts.value)))
	binary.BigEndian.PutUint16(header[32:], uint16(2+len(first)+len(parts.headers)))
	target = append(target, parts.key...)
	target = append(target, parts.value...)
	target = binary.BigEndian.AppendUint16(target, count)
	target = append(target, first...)
	target = append(target, parts.headers...)
	binary.BigEndian.PutUint32(target[start+4:], crc32.Checksum(target[start:], castagnoli))
	return target
}
