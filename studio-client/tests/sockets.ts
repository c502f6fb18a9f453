/** A socket without a server, for tests: what the page sends is kept, and the server's part is played. */

/** A message of the page. */
export interface Sent {
  type: string;
  [key: string]: unknown;
}

function isSent(message: unknown): message is Sent {
  return typeof message === "object" && message !== null && "type" in message;
}

export class FakeSocket {
  static readonly OPEN = 1;
  static last: FakeSocket;
  readyState = 0;
  binaryType = "blob";
  sent: Sent[] = [];
  onopen: () => void = () => {};
  onclose: () => void = () => {};
  onmessage: (event: { data: unknown }) => void = () => {};

  constructor(readonly url: string) {
    FakeSocket.last = this;
  }

  send(text: string): void {
    const message: unknown = JSON.parse(text);
    if (!isSent(message)) throw new Error(`no message: ${text}`);
    this.sent.push(message);
  }

  open(): void {
    this.readyState = FakeSocket.OPEN;
    this.onopen();
  }

  close(): void {
    this.readyState = 3;
    this.onclose();
  }

  receive(data: unknown): void {
    this.onmessage({ data });
  }

  types(): string[] {
    return this.sent.map((message) => message.type);
  }
}
