import { Client } from "@goqueue/client";

const client = new Client({ address: process.env.GOQUEUE_GRPC_ADDRESS ?? "127.0.0.1:9090" });
await client.topics.create("orders", { partitions: 1, existOk: true });
await client.topics.create("invoices", { partitions: 1, existOk: true });

// Publish: returns when the message is on the broker's disk, exactly once.
const order = { customer: "anna", cents: 420 };
const receipt = await client.publish("orders", { key: "anna", value: JSON.stringify(order) });
console.log(`stored in ${receipt.topic}, offset ${receipt.offset}`);

// Consume as a member of a group, and ack what is processed.
for await (const message of client.group("billing", "orders")) {
  const { customer, cents } = message.json<typeof order>();
  console.log("charged", customer, cents);
  await message.ack();
  break; // leaves the group
}

// A transaction: the ack and the invoice count together, or not at all.
const producer = client.transactionalProducer("invoicing-1");
for await (const message of client.group("invoicing", "orders")) {
  await producer.transaction(async (transaction) => {
    const { customer } = message.json<typeof order>();
    await transaction.send("invoices", { value: `invoice for ${customer}` });
    transaction.ack(message);
  });
  break;
}
for await (const message of client.reader("invoices", { until: "now" })) console.log(message.text);
await producer.close();
await client.close();
