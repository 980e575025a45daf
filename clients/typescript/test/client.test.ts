import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Client, type GoQueueError, type LeasedMessage } from "@goqueue/client";
import { OffsetService } from "@goqueue/client/services";
import { all, Broker } from "./broker.js";

let broker: Broker;
let client: Client;
let names = 0;

before(async () => {
  broker = await Broker.start();
  client = new Client({ address: broker.address });
});

after(async () => {
  await client.close();
  await broker.stop();
});

async function newTopic(partitions = 1, settings: Record<string, unknown> = {}): Promise<string> {
  const name = `topic-${names++}`;
  await client.topics.create(name, { partitions, settings });
  return name;
}

async function values(topic: string): Promise<string[]> {
  const found: string[] = [];
  for await (const message of client.reader(topic, { until: "now" })) found.push(message.text);
  return found;
}

test("message is read with its key, headers, priority and time", async () => {
  const topic = await newTopic(3);
  const headers = { source: "till", raw: Buffer.of(255, 254) };
  const receipt = await client.publish(topic, { value: "paid", key: "user-42", headers, priority: "high" });
  assert.deepEqual({ ...receipt, partition: 0 }, { topic, partition: 0, offset: 0, delayed: false, duplicate: false });
  await client.publish(topic, { value: null, key: "user-42" });
  const found = [];
  for await (const message of client.reader(topic, { until: "now" })) found.push(message);
  const [first, second] = found;
  assert.equal(first?.partition, receipt.partition);
  assert.equal(second?.partition, receipt.partition);
  assert.equal(first?.text, "paid");
  assert.equal(first?.key.toString(), "user-42");
  assert.equal(first?.headers.source, "till");
  assert.deepEqual(first?.rawHeaders[1], { name: "raw", value: Buffer.of(255, 254) });
  assert.equal(first?.priority, "high");
  assert.ok(Math.abs(first.timestamp.getTime() - Date.now()) < 60_000);
  assert.equal(second?.isTombstone, true);
});

test("keys go to the partitions that the broker chooses", async () => {
  for (const partitioner of ["murmur3", "murmur2"]) {
    const topic = await newTopic(7, { partitioner });
    for (let length = 1; length < 12; length++) {
      const key = "kéy-0123456789".slice(0, length);
      const ours = await client.publish(topic, { value: "x", key });
      const body = { messages: [{ value: "x", key }] };
      const theirs = await client.request<{ results: { partition: number }[] }>("POST", `/topics/${topic}/messages`, body);
      assert.equal(ours.partition, theirs.results[0]?.partition, `${partitioner} of ${key}`);
    }
  }
});

test("delayed message is delivered once it is due", async () => {
  const topic = await newTopic();
  const receipt = await client.publish(topic, { value: "later", delayMs: 200, headers: { a: "b" } });
  assert.equal(receipt.delayed, true);
  await client.publish(topic, { value: "at", deliverAt: new Date(Date.now() + 300) });
  const found: string[] = [];
  for await (const message of client.reader(topic)) {
    if (found.push(message.text) === 2) break;
  }
  assert.deepEqual(found, ["later", "at"]);
});

test("stream of messages is stored in order, and each batch has its result", async () => {
  const topic = await newTopic(2);
  const producer = client.producer({ bufferBytes: 20_000, requestBytes: 5000 });
  function* source() {
    for (let number = 0; number < 3000; number++) yield { value: String(number), partition: number % 2 };
  }
  let stored = 0;
  for await (const batch of producer.stream(topic, source(), { batchMessages: 100 })) {
    assert.ok(producer.bufferedBytes <= 20_000 + 100);
    stored += (await batch.receipts()).length;
  }
  assert.equal(stored, 3000);
  const first = (await values(topic)).map(Number).filter((number) => number % 2 === 0);
  assert.deepEqual(first, Array.from({ length: 1500 }, (_, index) => index * 2));
  await client.topics.delete(topic);
  const lost = await producer.send(topic, { value: "x" });
  await assert.rejects(producer.flush(), { code: "topic_not_found" });
  await assert.rejects(lost.receipt(), { code: "topic_not_found" });
  await producer.close();
});

test("messages that break the schema fail alone", async () => {
  const topic = await newTopic(1, { value_validation: "payload" });
  const schema = JSON.stringify({ type: "object", required: ["id"] });
  const subject = `/subjects/${topic}-value/versions`;
  const { id: schemaId } = await client.request<{ id: number }>("POST", subject, { schemaType: "JSON", schema });
  const producer = client.producer();
  const messages = Array.from({ length: 40 }, (_, id) => ({
    value: id % 13 === 5 ? "{}" : JSON.stringify({ id }),
    headers: { "schema-id": String(schemaId) },
  }));
  const errors = await (await producer.sendMany(topic, messages)).errors();
  assert.deepEqual([...errors.keys()].sort((a, b) => a - b), [5, 18, 31]);
  assert.equal(errors.get(5)?.code, "schema_violation");
  await producer.close();
  const stored = (await values(topic)).map((text) => (JSON.parse(text) as { id: number }).id);
  assert.deepEqual(stored, messages.map((_, id) => id).filter((id) => id % 13 !== 5));
});

test("messages are placed anew when partitions are added", async () => {
  const topic = await newTopic(1);
  const producer = client.producer();
  await (await producer.send(topic, { value: "0", key: "a" })).receipt();
  await client.topics.addPartitions(topic, 5);
  const keys = ["a", "b", "c", "d", "e", "f"];
  const delivery = await producer.sendMany(topic, keys.map((key) => ({ value: key, key })));
  const partitions = (await delivery.receipts()).map((receipt) => receipt.partition);
  await producer.close();
  const again = await Promise.all(keys.map((key) => client.publish(topic, { value: key, key })));
  assert.deepEqual(partitions, again.map((receipt) => receipt.partition));
  assert.equal((await client.publish(topic, { value: "x", partition: 4 })).partition, 4);
});

test("group member acks, nacks, rejects and extends, and hears of its assignment", async () => {
  const topic = await newTopic(2, { max_retries: 1 });
  for (const value of ["ack", "nack", "reject", "release"]) await client.publish(topic, { value, key: "k" });
  const group = client.group("settling", topic, { visibilityTimeoutMs: 20_000, name: "till" });
  const assignments: number[] = [];
  group.on("assignment", (partitions) => assignments.push(partitions.length));
  const seen: string[] = [];
  for await (const message of group) {
    seen.push(`${message.text} ${message.attempt}`);
    const deadline = await message.extend(25_000);
    assert.ok((deadline?.getTime() ?? 0) > Date.now() + 15_000);
    if (message.text === "reject") await message.reject("broken");
    else if (message.text === "release" && message.attempt === 1) await message.release();
    else if (message.text === "nack") await message.nack({ delayMs: 0, reason: "not yet" });
    else await message.ack();
    if (seen.length === 6) break;
  }
  assert.deepEqual([...seen].sort(), ["ack 1", "nack 1", "nack 2", "reject 1", "release 1", "release 2"]);
  assert.equal(assignments[0], 2);
  assert.deepEqual((await values(`${topic}.dlq`)).sort(), ["nack", "reject"]);
  const { offsets } = await client.call(OffsetService.fetchOffsets, { groupId: "settling" }, { repeatable: true });
  assert.equal(offsets?.reduce((sum, one) => sum + Math.max(one.offset ?? 0, 0), 0), 4);
});

test("ack right after an ack is sent, and fails for a message that is settled", async () => {
  const topic = await newTopic();
  for (const value of ["first", "second"]) await client.publish(topic, { value });
  for await (const [first, second] of client.group("acked-again", topic).batches()) {
    await first?.ack();
    await second?.ack();
    await assert.rejects(first?.ack() as Promise<void>, { code: "lease_expired" });
    break;
  }
});

test("second member gets its share, and the messages of one that leaves", async () => {
  const topic = await newTopic(4);
  const first = client.group("sharing", topic);
  const second = client.group("sharing", topic);
  const seen = new Set<string>();
  let finish = () => {};
  const complete = new Promise<void>((done) => (finish = done));
  const revoked = once(first, "revoked");
  const assigned = once(first, "assignment");
  const reading = (async () => {
    for await (const message of first) {
      await message.ack();
      if (seen.add(message.text).size === 16) finish();
    }
  })();
  await assigned;
  const receipts = Array.from({ length: 8 }, (_, index) => ({ value: `a${index}`, partition: index % 4 }));
  await Promise.all(receipts.map((message) => client.publish(topic, message)));
  const iterator = second[Symbol.asyncIterator]();
  const next = iterator.next();
  await revoked;
  const more = Array.from({ length: 8 }, (_, index) => ({ value: `b${index}`, partition: index % 4 }));
  await Promise.all(more.map((message) => client.publish(topic, message)));
  const held = (await next).value as LeasedMessage;
  assert.ok(second.assignment.length > 0);
  await iterator.return?.(); // leaves with unsettled messages
  await complete;
  await first.close();
  await reading;
  await assert.rejects(held.nack(), { code: "lease_expired" });
});

test("reader begins at an offset, at a time, or at the end, and filters", async () => {
  const topic = await newTopic();
  for (const number of [1, 2, 3]) await client.publish(topic, { value: JSON.stringify({ number }) });
  const [, , third] = await all(client.reader(topic, { until: "now" }));
  const read = async (options: Parameters<Client["reader"]>[1]) =>
    (await all(client.reader(topic, { ...options, until: "now" }))).map((one) => one.json<{ number: number }>().number);
  assert.deepEqual(await read({ start: new Map([[0, 1]]) }), [2, 3]);
  assert.deepEqual(await read({ start: third?.timestamp as Date }).then((found) => found.at(-1)), 3);
  assert.deepEqual(await read({ start: "latest" }), []);
  assert.deepEqual(await read({ filter: ["json.number>1"] }), [2, 3]);
  const latest = client.reader(topic, { start: "latest" });
  const next = latest[Symbol.asyncIterator]();
  const found = next.next();
  const publishing = setInterval(() => void client.publish(topic, { value: "new" }), 20);
  assert.equal((await found).value?.text, "new");
  clearInterval(publishing);
  await next.return?.();
  assert.ok((latest.positions.get(0) ?? 0) > 3);
});

test("transaction commits messages and acks together, or aborts them", async () => {
  const [orders, invoices] = [await newTopic(), await newTopic(2)];
  for (const value of ["1", "2"]) await client.publish(orders, { value });
  const producer = client.transactionalProducer("till-1");
  const group = client.group("billing", orders);
  const attempts: string[] = [];
  for await (const message of group) {
    attempts.push(`${message.text} ${message.attempt}`);
    const work = producer.transaction(async (transaction) => {
      await transaction.send(invoices, { value: `invoice ${message.text}`, key: message.text });
      transaction.ack(message);
      if (message.text === "2" && message.attempt === 1) throw new Error("no paper");
    });
    if (attempts.length === 2) await assert.rejects(work, /no paper/);
    else await work;
    if (attempts.length === 3) break;
  }
  assert.deepEqual(attempts, ["1 1", "2 1", "2 2"]);
  assert.deepEqual((await values(invoices)).sort(), ["invoice 1", "invoice 2"]);
  const newer = client.transactionalProducer("till-1");
  await newer.transaction(async (transaction) => {
    await transaction.send(invoices, { value: "invoice 3" });
    transaction.commitOffsets("billing", [{ topic: orders, partition: 0, offset: 2 }]);
  });
  const former = producer.transaction((transaction) => transaction.send(invoices, { value: "too late" }));
  await assert.rejects(former, { code: "producer_fenced" });
  await assert.rejects(producer.transaction(async () => undefined), { code: "producer_fenced" });
  assert.equal((await values(invoices)).length, 3);
  await newer.close();
  await producer.close();
});

test("error has the code, hint and fields of the broker", async () => {
  await assert.rejects(client.topics.describe("missing"), (error: GoQueueError) => {
    assert.equal(error.code, "topic_not_found");
    assert.ok(error.hint);
    assert.equal(error.isTransient, false);
    return true;
  });
  await assert.rejects(client.topics.create("wrong", { settings: { retention_hours: "no" } }), (error: GoQueueError) => {
    assert.deepEqual(error.problems.map((one) => one.field), ["retention_hours"]);
    return true;
  });
  assert.equal(await client.topics.create("known"), true);
  assert.equal(await client.topics.create("known", { existOk: true }), false);
  assert.ok((await client.topics.list()).includes("known"));
  const topic = await newTopic();
  await assert.rejects(client.publish(topic, { value: null }), { code: "request_invalid" });
  await assert.rejects(client.publish(topic, { value: "x", partition: 9 }), { code: "partition_not_found" });
  await assert.rejects(client.publish(topic, { value: Buffer.alloc(2 << 20) }), { code: "message_too_large" });
  await assert.rejects(client.topics.list({ signal: AbortSignal.abort() }), { code: "cancelled" });
});

test("error of a broker that cannot be reached says so after the time of the call, and what to do", async () => {
  const nowhere = new Client({ address: "127.0.0.1:1", timeoutMs: 400 });
  for (const call of [() => nowhere.topics.list(), () => nowhere.publish("orders", { value: "x" })]) {
    const begun = performance.now();
    await assert.rejects(call, (error: GoQueueError) => {
      assert.equal(error.code, "broker_unreachable");
      assert.match(error.message, /ECONNREFUSED 127\.0\.0\.1:1$/);
      assert.match(error.hint ?? "", /GOQUEUE_GRPC_ADDRESS/);
      return error.isTransient && !error.unsure;
    });
    assert.ok(performance.now() - begun >= 290);
  }
  await nowhere.close();
  assert.throws(() => new Client({ address: "http://127.0.0.1:9" }), { code: "request_invalid", hint: /HOST:PORT/ });
});

test("key and TLS are presented", async () => {
  const run = promisify(execFile);
  const program = resolve(process.env.GOQUEUE ?? "../../.venv/bin/goqueue");
  const files = join(broker.directory, "tls");
  await run(program, ["cert", "dev", "--dir", files]);
  const options = ["--tls-cert", join(files, "server.pem"), "--tls-key", join(files, "server.key")];
  const secured = await Broker.start(...options, "--auth", "--admin-key-file", join(files, "admin.key"));
  const tls = { ca: join(files, "ca.pem") };
  const apiKey = (await readFile(join(files, "admin.key"), "utf8")).trim();
  const mine = new Client({ address: secured.address.replace("127.0.0.1", "localhost"), tls, apiKey });
  await mine.topics.create("orders");
  assert.equal((await mine.publish("orders", { value: "x" })).offset, 0);
  const other = new Client({ address: secured.address.replace("127.0.0.1", "localhost"), tls, apiKey: "wrong" });
  await assert.rejects(other.publish("orders", { value: "x" }), { code: "unauthenticated" });
  await other.close();
  await mine.close();
  await secured.stop();
});

test("example of the README prints what it says", async () => {
  const run = promisify(execFile);
  const env = { ...process.env, GOQUEUE_GRPC_ADDRESS: broker.address };
  const { stdout } = await run(process.execPath, [resolve("build/examples/five-minutes.js")], { env });
  assert.equal(stdout, "stored in orders, offset 0\ncharged anna 420\ninvoice for anna\n");
});
