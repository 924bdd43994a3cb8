import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { awaitRedirect } from '../../src/upstream/authorization.ts';

it('takes the code of the browser while half-open connections fill the listener', async () => {
  await using waiting = await awaitRedirect(new URL('http://127.0.0.1/callback'));
  const code = waiting.code((query) => query.get('code'), new AbortController().signal);
  const sockets = await Promise.all(
    Array.from({ length: 25 }, async () => {
      const socket = connect(Number(new URL(waiting.redirect).port), '127.0.0.1').on(
        'error',
        () => undefined,
      );
      await once(socket, 'connect');
      socket.write('GET /callback HTTP/1.1\r\n');
      return socket;
    }),
  );
  expect((await fetch(`${waiting.redirect}?code=27182818`)).status).toBe(200);
  expect(await code).toBe('27182818');
  for (const socket of sockets) socket.destroy();
});
