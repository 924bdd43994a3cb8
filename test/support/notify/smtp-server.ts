import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

export interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly user: string | null;
  /** Headers and text, as they came. */
  readonly data: string;
}

export interface SmtpServer extends AsyncDisposable {
  readonly host: string;
  readonly mails: readonly Mail[];
  /** The reply to each message, by its index; `cut`: it is taken and the connection is closed. */
  answer(how: (index: number) => string): void;
  arrived(count: number): Promise<void>;
}

/** As much of an SMTP server (RFC 5321) as a client needs, on a free port: without TLS, with AUTH PLAIN. */
export async function startSmtpServer(): Promise<SmtpServer> {
  const mails: Mail[] = [];
  let answerOf: (index: number) => string = () => '250 2.0.0 taken';
  let waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  const serve = (socket: Socket): void => {
    let text = '';
    let data: string[] | null = null;
    let from = '';
    let to: string[] = [];
    let user: string | null = null;
    const reply = (line: string): void => void socket.write(`${line}\r\n`);
    const end = (lines: readonly string[]): void => {
      const answer = answerOf(mails.push({ from, to, user, data: lines.join('\n') }) - 1);
      if (answer === 'cut') socket.destroy();
      else reply(answer);
      for (const { count, resolve } of waiting) if (mails.length >= count) resolve();
      waiting = waiting.filter(({ count }) => mails.length < count);
    };
    const take = (line: string): void => {
      if (data !== null) {
        if (line !== '.') {
          data.push(line);
          return;
        }
        end(data);
        data = null;
        return;
      }
      const [, address = ''] = /<([^>]*)>/.exec(line) ?? [];
      if (/^EHLO/i.test(line)) socket.write('250-mail.test\r\n250 AUTH PLAIN\r\n');
      else if (/^AUTH PLAIN /i.test(line)) {
        user = Buffer.from(line.slice('AUTH PLAIN '.length), 'base64').toString().split('\0')[1] ?? null;
        reply('235 2.7.0 hello');
      } else if (/^MAIL FROM/i.test(line)) {
        from = address;
        to = [];
        reply('250 2.1.0 ok');
      } else if (/^RCPT TO/i.test(line)) {
        to.push(address);
        reply('250 2.1.5 ok');
      } else if (/^DATA/i.test(line)) {
        data = [];
        reply('354 go ahead');
      } else if (/^QUIT/i.test(line)) socket.end('221 2.0.0 bye\r\n');
      else reply('502 5.5.1 not known');
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString();
      const lines = text.split('\r\n');
      text = lines.pop() ?? '';
      lines.forEach(take);
    });
    reply('220 mail.test ESMTP');
  };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    mails,
    answer: (how) => {
      answerOf = how;
    },
    arrived: async (count) => {
      if (mails.length >= count) return;
      await new Promise<void>((resolve) => waiting.push({ count, resolve }));
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
