import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "@goqueue/client";
import { all, Broker } from "./broker.js";

const MESSAGES = 6000;

test("nothing is lost and nothing stored twice when the broker is killed and started again", async () => {
  const broker = await Broker.start();
  const client = new Client({ address: broker.address, timeoutMs: 60_000 });
  await client.topics.create("numbers", { partitions: 3 });
  await client.topics.create("squares", { partitions: 2 });

  const producer = client.producer({ requestBytes: 4000 });
  const publishing = (async () => {
    for (let number = 0; number < MESSAGES; number += 20) {
      const some = Array.from({ length: 20 }, (_, index) => ({ value: String(number + index), key: `k${index}` }));
      await (await producer.sendMany("numbers", some)).receipts();
    }
  })();

  const followed: number[] = [];
  const reader = client.reader("numbers");
  const following = (async () => {
    for await (const message of reader) if (followed.push(Number(message.text)) === MESSAGES) break;
  })();

  const group = client.group("squaring", "numbers", { maxInFlight: 500, visibilityTimeoutMs: 3000 });
  const squaring = client.transactionalProducer("squaring-1");
  let reconnections = 0;
  group.on("reconnecting", () => reconnections++);
  const processing = (async () => {
    for await (const batch of group.batches(200)) {
      try {
        await squaring.transaction(async (transaction) => {
          await transaction.sendMany("squares", batch.map((one) => ({ value: String(Number(one.text) ** 2) })));
          transaction.ack(batch);
        });
      } catch {
        // Aborted as a whole, or its outcome is not known: the broker delivers again what was not acknowledged.
      }
    }
  })();
  const counting = (async () => {
    let count = 0;
    for await (const _ of client.reader("squares")) if (++count === MESSAGES) break;
    await group.close();
  })();

  for (let round = 0; round < 3; round++) {
    await pause(300);
    await broker.kill();
    await broker.start();
  }
  await publishing;
  await producer.close();
  await following;
  await counting;
  await processing;
  await squaring.close();
  const stored = (await all(client.reader("numbers", { until: "now" }))).map((one) => Number(one.text));
  const expected = Array.from({ length: MESSAGES }, (_, number) => number);
  const sorted = (numbers: number[]) => numbers.sort((a, b) => a - b);
  assert.deepEqual(sorted(stored), expected);
  assert.deepEqual(sorted(followed), expected);
  const squares = (await all(client.reader("squares", { until: "now" }))).map((one) => Number(one.text));
  assert.deepEqual(sorted(squares), expected.map((number) => number ** 2));
  assert.ok(reconnections >= 3);
  await client.close();
  await broker.stop();
});
