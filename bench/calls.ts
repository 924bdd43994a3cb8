import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SampleAccount } from '../src/sample/sample-account.ts';
import { listingOf } from '../test/support/listing-of.ts';
import { builtInDefinition, startSampleService } from '../test/support/sample-service.ts';
import { allEntities, chosenEntities, syncOnce } from '../test/support/sync-once.ts';

/**
 * Calls that a first load and an unchanged re-sync of a SQLite sink make: many short lists, and the small sample
 * accounts, each with and without totals in the answers. `npm run bench:calls -- [lists]`. Waits for nothing, so the
 * numbers are the same on every machine.
 */
const lists = Number(process.argv[2] ?? 2_000);
const membersPerList = 3;

interface Account {
  readonly name: string;
  readonly definition: 'email-marketing' | 'workspace-notes';
  readonly connectorId: 'mailing' | 'notes';
  /** By default all. */
  readonly entities?: readonly string[];
  /** Calls before short pages were compared with what is known of the service's page size; absent: no goal. */
  readonly before?: number;
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}

interface Figures {
  /** Listings that were walked. */
  readonly listings: number;
  readonly calls: number;
}

const mailing = { definition: 'email-marketing', connectorId: 'mailing' } as const;
const accounts: readonly Account[] = [
  {
    name: `${lists} lists of ${membersPerList} members`,
    ...mailing,
    entities: ['lists', 'list_members'],
    wrap: shortLists,
  },
  { name: 'small mailing account', ...mailing, before: 166 },
  { name: 'small notes account', definition: 'workspace-notes', connectorId: 'notes' },
];

process.stdout.write(`${''.padEnd(38)}  listings  first load  re-sync\n`);
for (const { wrap = asItIs, ...account } of accounts) {
  const [first, again] = await measure(account, wrap);
  print(account.name, first, again);
  if (account.definition === 'email-marketing') {
    print(`${account.name}, totals`, ...(await measure(account, (one) => withTotals(wrap(one)))));
  }
  target(account, first, again);
}

function print(name: string, first: Figures, again: Figures): void {
  const cells = [
    String(first.listings).padStart(8),
    String(first.calls).padStart(10),
    String(again.calls).padStart(7),
  ];
  process.stdout.write(`${name.padEnd(38)}  ${cells.join('  ')}\n`);
}

function target({ before, entities }: Account, first: Figures, again: Figures): void {
  const goals: (readonly [string, number, number])[] = [];
  if (entities !== undefined) {
    goals.push(['first load, calls a listing', first.calls / first.listings, 1.15]);
    goals.push(['re-sync, calls a listing', again.calls / again.listings, 1.02]);
  }
  if (before !== undefined) {
    goals.push([`first load, of ${before} calls before`, first.calls / before, 0.65]);
    goals.push([`re-sync, of ${before} calls before`, again.calls / before, 0.55]);
  }
  for (const [what, figure, most] of goals) {
    process.stdout.write(
      `  ${figure <= most ? 'met   ' : 'missed'}  ${what}: ${figure.toFixed(3)} (at most ${most})\n`,
    );
  }
}

async function measure(
  { name, definition: definitionName, connectorId, entities }: Omit<Account, 'wrap'>,
  wrap: (account: SampleAccount) => SampleAccount,
): Promise<readonly [Figures, Figures]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'connector-sync-bench-'));
  const definition = builtInDefinition(definitionName);
  await using service = await startSampleService('small', { wrap });
  const sync = async (): Promise<Figures> => {
    const report = await syncOnce({
      baseUrl: service.url,
      definition,
      connectorId,
      sink: { type: 'sqlite', name: 'bench', path: path.join(folder, 'bench.db'), durability: 'normal' },
      entities: entities === undefined ? allEntities(definition) : chosenEntities(definition, entities),
      requestsPerSecond: 1_000_000,
    });
    if (report.outcome !== 'ok') throw new Error(`${name} ended ${report.outcome}`);
    const proofs = report.entities.flatMap((entity) => Object.values(entity.proofs));
    return { listings: proofs.reduce((sum, one) => sum + one, 0), calls: report.calls };
  };
  try {
    return [await sync(), await sync()];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function asItIs(account: SampleAccount): SampleAccount {
  return account;
}

/** Every list has the members of the first one, up to `membersPerList`. */
function shortLists(account: SampleAccount): SampleAccount {
  return {
    list: (entity, params) => {
      const [list] = account.list('lists', {}).slice(0, 1);
      const members = account.list('list_members', { list_id: list?.['id'] ?? '' }).slice(0, membersPerList);
      if (entity === 'lists') {
        return listingOf(Array.from({ length: lists }, (_, index) => ({ ...list, id: `list${index}` })));
      }
      const listId = params['list_id'] ?? '';
      return listingOf(
        members.map((member) => ({
          ...member,
          id: JSON.stringify([member['id'], listId]),
          list_id: listId,
        })),
      );
    },
    get: () => null,
  };
}

/** Answers say how many records the listing has, as the service itself does. */
function withTotals(account: SampleAccount): SampleAccount {
  return {
    ...account,
    list: (entity, params) => {
      const listing = account.list(entity, params);
      const total = listing.slice(0, 1_000_000).length;
      return { ...listing, metadata: { ...listing.metadata, total_items: total } };
    },
  };
}
