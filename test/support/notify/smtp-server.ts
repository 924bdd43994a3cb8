import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { countArrivals, listen } from '../listen.ts';

export interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly user: string | null;
  /** Whether all of it came over TLS, the password too. */
  readonly isEncrypted: boolean;
  /** Headers and text, as they came. */
  readonly data: string;
}

/** The certificate of servers with TLS: self-made, so that a client has to be given it. */
export const certificate = 'test/fixtures/tls/cert.pem';

/** As much of an SMTP server (RFC 5321) as a client needs, on a free port, with AUTH PLAIN. */
export async function startSmtpServer(tls: 'none' | 'starttls' | 'implicit' = 'none') {
  const secureContext = createSecureContext({
    key: readFileSync('test/fixtures/tls/key.pem'),
    cert: readFileSync(certificate),
  });
  const encrypted = (socket: Socket): Socket => new TLSSocket(socket, { isServer: true, secureContext });
  const mails: Mail[] = [];
  let answerOf: (index: number) => string = () => '250 2.0.0 taken';
  const { check, arrived } = countArrivals(mails);
  const serve = (socket: Socket, isEncrypted: boolean): void => {
    let text = '';
    let data: string[] | null = null;
    let from = '';
    let to: string[] = [];
    let user: string | null = null;
    const reply = (line: string): void => void socket.write(`${line}\r\n`);
    const end = (lines: readonly string[]): void => {
      const answer = answerOf(mails.push({ from, to, user, isEncrypted, data: lines.join('\n') }) - 1);
      if (answer === 'cut') socket.destroy();
      else reply(answer);
      check();
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
      if (/^EHLO/i.test(line)) {
        const offers = tls === 'starttls' && !isEncrypted ? '250-STARTTLS\r\n' : '';
        socket.write(`250-mail.test\r\n${offers}250 AUTH PLAIN\r\n`);
      } else if (/^STARTTLS/i.test(line) && tls === 'starttls') {
        reply('220 2.0.0 go ahead');
        socket.removeAllListeners('data');
        serve(encrypted(socket), true);
      } else if (/^AUTH PLAIN /i.test(line)) {
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
    if (tls !== 'starttls' || !isEncrypted) reply('220 mail.test ESMTP');
  };
  const server = createServer((socket) => {
    if (tls === 'implicit') serve(encrypted(socket), true);
    else serve(socket, false);
  });
  const { host, close } = await listen(server);
  return {
    host,
    mails,
    /** The reply to each message, by its index; `cut`: it is taken and the connection is closed. */
    answer: (how: (index: number) => string) => {
      answerOf = how;
    },
    arrived,
    [Symbol.asyncDispose]: close,
  };
}
