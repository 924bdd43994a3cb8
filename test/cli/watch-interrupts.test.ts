import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { startScript } from '../support/run-cli.ts';

const module = fileURLToPath(new URL('../../src/cli/command.ts', import.meta.url));

// A program that pays no attention to its signal: only the second interrupt can end it.
const program = `
  import { watchInterrupts } from ${JSON.stringify(module)};
  const { signal } = watchInterrupts(() => console.log('asked once'));
  setInterval(() => undefined, 1000);
  signal.addEventListener('abort', () => console.log('aborted: ' + signal.reason.code));
  console.log('ready');
`;

it.each(['SIGINT', 'SIGTERM'] as const)(
  'asks in order on the first %s and leaves at once on the second',
  async (name) => {
    const running = startScript(['--input-type=module', '-e', program], process.cwd());
    await running.until('ready');
    running.child.kill(name);
    await running.until('aborted: INTERRUPTED');
    running.child.kill(name);
    const { code, stdout } = await running.result;
    expect(code).toBe(130);
    expect(stdout.match(/asked once/g)).toHaveLength(1);
  },
);
