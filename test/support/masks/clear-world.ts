import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import type { SampleSize } from '../../../src/sample/sample-account.ts';
import { openCliWorld } from '../cli-world.ts';
import { isLong, type triedSinks } from '../trials.ts';
import { markedAccount, marked, maskWithout, openMarks } from './marked-world.ts';

/** A sink of what the marked account had before there was a mask: deleted rows, versions, lines, quarantine. */
export async function openClearWorld(
  sink: (typeof triedSinks)[number],
  {
    sinkSettings,
    more = '',
    size = isLong ? { members: marked } : 'tiny',
  }: { readonly sinkSettings?: string; readonly more?: string; readonly size?: SampleSize } = {},
) {
  const marks = openMarks();
  const world = await openCliWorld({
    sink,
    ...(sinkSettings === undefined ? {} : { sinkSettings }),
    size,
    wrap: markedAccount(marks),
    settings: sink === 'jsonl' ? '' : '    history: true\n',
  });
  appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n${more}`);
  for (const revision of [1, 2, 3]) {
    world.moveTo(revision);
    await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
  }
  await world.cli('sync', 'newsletter', '--full', '--max-calls', '5');
  return {
    world,
    marks,
    /** Gives the config its masks. */
    mask: () => {
      const config = readFileSync(world.config, 'utf8');
      writeFileSync(world.config, config.replace('  wiki:\n', `${maskWithout(null)}  wiki:\n`));
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}
