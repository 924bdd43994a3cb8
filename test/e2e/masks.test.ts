import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import {
  foundIn,
  markedAccount,
  marked,
  maskedMembers,
  maskWithout,
  openMarks,
  type Marks,
} from '../support/masks/marked-world.ts';
import { isLong, triedSinks } from '../support/trials.ts';

async function openMaskedWorld(
  sink: (typeof triedSinks)[number],
  marks: Marks,
  mask: string,
): Promise<CliWorld> {
  const world = await openCliWorld({
    sink,
    ...(isLong ? { size: { members: marked } } : {}),
    wrap: markedAccount(marks),
    settings: mask,
  });
  appendFileSync(
    world.config,
    `mask: { key: "${randomBytes(32).toString('base64')}" }\npublish:\n  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }\n`,
  );
  return world;
}

/** Runs everything that stores or shows records; gives all that was printed. */
async function useEverything(world: CliWorld): Promise<string> {
  const printed: string[] = [];
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await world.cli(...args);
    printed.push(`${args.join(' ')}: ${code}`, stdout, stderr);
    return stdout;
  };
  await run('sync', 'newsletter', '--max-calls', '4', '--verbose');
  await run('sync', 'newsletter', '--verbose');
  world.moveTo(3);
  await run('sync', 'newsletter', '--full', '--allow-deletes', '--json');
  const members = await run('export', 'newsletter/list_members');
  const key = /"list_id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const id = /"id":"([^"]+)"/.exec(members)?.[1] ?? '';
  await run('explain', 'newsletter/list_members', key, id, '--json');
  await run('list', 'newsletter/list_members', '--param', `list_id=${key}`);
  await run(
    'get',
    'newsletter/list_members',
    '--param',
    `list_id=${key}`,
    '--param',
    `subscriber_hash=${id}`,
  );
  await run('search', 'newsletter/list_members', '--json');
  await run('audit', 'newsletter/list_members', '--json');
  await run(
    'definitions',
    'try',
    'email-marketing',
    'list_members',
    '--param',
    `list_id=${key}`,
    '--connector',
    'newsletter',
    '--json',
  );
  await run('status', '--json', '--verbose');
  await run('check', '--json');
  await run('publish', 'lake', '--json');
  await run('schema', 'newsletter');
  return printed.join('\n');
}

// Proves promise 10.5
it.each(triedSinks)('stores and shows no masked value anywhere (%s)', { timeout: 300_000 }, async (sink) => {
  const marks = openMarks();
  await using world = await openMaskedWorld(sink, marks, maskWithout(null));
  const printed = await useEverything(world);
  expect(marks.values().length).toBeGreaterThan(200);
  expect([...(await foundIn(world, sink, printed, marks.values()))]).toEqual([]);
});

const places = [
  ...Object.keys(maskedMembers).filter((path) => !path.startsWith('merge_fields')),
  'activity.ip',
];

it.each(isLong ? places : ['contacts.email'])(
  'has values found by that search where the mask leaves out %s',
  { timeout: 300_000 },
  async (left) => {
    const marks = openMarks();
    await using world = await openMaskedWorld('sqlite', marks, maskWithout(left));
    const { stdout } = await world.cli('sync', 'newsletter');
    const found = await foundIn(world, 'sqlite', stdout, marks.values());
    expect([...found.keys()].toSorted()).toEqual(marks.at(left).toSorted());
  },
);
