/** Messages per second of this client, with a broker of its own on this machine: `npm run bench`. */
import { Client } from "@goqueue/client";
import { Broker } from "./broker.js";

const COUNT = Number(process.env.MESSAGES ?? 300_000);
const value = Buffer.alloc(100, "x");
const broker = await Broker.start();
const client = new Client({ address: broker.address });

async function measure(what: string, count: number, work: () => Promise<void>): Promise<void> {
  const begin = performance.now();
  await work();
  console.log(`${what}: ${Math.round(count / ((performance.now() - begin) / 1000)).toLocaleString("en")} messages/s`);
}

await client.topics.create("bench", { partitions: 3 });
await measure("publish, one after the other", 2000, async () => {
  for (let number = 0; number < 2000; number++) await client.publish("bench", { value });
});
await measure("producer, stream of 100 bytes each", COUNT, async () => {
  const producer = client.producer();
  function* source() {
    for (let number = 0; number < COUNT; number++) yield { value };
  }
  for await (const batch of producer.stream("bench", source(), { batchMessages: 5000 })) await batch.receipts();
  await producer.close();
});
await measure("reader", COUNT, async () => {
  let left = COUNT;
  for await (const _ of client.reader("bench")) if (--left === 0) break;
});
await measure("group with an ack of each message", COUNT, async () => {
  let left = COUNT;
  const acks: Promise<void>[] = [];
  for await (const message of client.group("bench", "bench", { maxInFlight: 20_000 })) {
    acks.push(message.ack());
    if (--left === 0) break;
  }
  await Promise.all(acks);
});
await client.close();
await broker.stop();
