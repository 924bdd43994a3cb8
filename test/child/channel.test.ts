import { expect, it } from 'vitest';
import { explainedAs, openChannel, type Channel, type Message } from '../../src/child/start-child.ts';
import { SyncError } from '../../src/core/errors.ts';

type Echo = {
  readonly echo: (text: string) => Promise<string>;
  readonly fail: (how: 'known' | 'unknown') => void;
  readonly never: (none: null) => Promise<void>;
};

/** Two ends of a wire; all messages between them are kept. */
function openWire() {
  const sent: Message[] = [];
  const explain = explainedAs('The echo failed', 'INTERNAL', 'stop');
  const calls: Echo = {
    echo: async (text) => {
      const prefix = text === 'asked back' ? await child.ask('prefix', null) : '';
      return `${prefix}${text}`;
    },
    fail: (how) => {
      if (how === 'unknown') throw new RangeError('out of range');
      throw new SyncError('The disk is full.', {
        code: 'SINK_FULL',
        recovery: 'retry',
        context: { free: 0 },
        cause: new Error('a secret of the process'),
      });
    },
    never: async () => await new Promise(() => undefined),
  };
  const deliver = (to: () => { receive(message: Message): void }) => (message: Message) => {
    sent.push(message);
    queueMicrotask(() => to().receive(structuredClone(message)));
  };
  const parent: Channel<Echo> = openChannel<Echo>(
    deliver(() => child),
    { prefix: () => '> ' },
    explain,
  );
  const child = openChannel<{ readonly prefix: (none: null) => string }>(
    deliver(() => parent),
    calls,
    explain,
  );
  return { parent, sent };
}

it('gives each call its own result, in both directions', async () => {
  const { parent } = openWire();
  const asked = [parent.ask('echo', 'asked back'), parent.ask('echo', 'b'), parent.ask('echo', 'c')];
  expect(await Promise.all(asked)).toEqual(['> asked back', 'b', 'c']);
});

it('carries an error with its code and context, and without its cause', async () => {
  const { parent, sent } = openWire();
  await expect(parent.ask('fail', 'known')).rejects.toMatchObject({
    message: 'The disk is full.',
    code: 'SINK_FULL',
    recovery: 'retry',
    context: { free: 0 },
  });
  expect(JSON.stringify(sent)).not.toContain('secret');
  await expect(parent.ask('fail', 'unknown')).rejects.toMatchObject({
    message: 'The echo failed (RangeError: out of range). This is a bug: report it.',
    code: 'INTERNAL',
  });
});

it('rejects calls that wait, and later ones, with the first reason for which it was closed', async () => {
  const { parent } = openWire();
  const waiting = parent.ask('never', null);
  parent.close(new Error('the process ended (SIGKILL)'));
  parent.close(new Error('another reason'));
  await expect(waiting).rejects.toThrow('the process ended (SIGKILL)');
  await expect(parent.ask('echo', 'a')).rejects.toThrow('the process ended (SIGKILL)');
});
