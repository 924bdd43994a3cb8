import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { JsonObject } from '../../src/core/json.ts';
import { loadDefinition } from '../../src/definitions/load-definitions.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { compareEntity } from './compare-entity.ts';
import { memberIn, pointedAt } from './imported.ts';
import { madeUpAccount, type Account } from './made-up-account.ts';
import { openMadeUpService, type MadeUpService } from './made-up-service.ts';
import { moveRow, withChildren } from './move-row.ts';
import { textOf } from './paging-kinds.ts';
import type { PublicFile } from './public-file.ts';
import { openServed } from './served.ts';
import type { Vendor } from './vendor.ts';

/**
 * `plain`: read once. `killed`: the process gets a SIGKILL while it waits for some page, and another one resumes.
 * `capped`: pages are shorter than asked for; where a token leads on, they have different lengths, and some are
 * empty. `moving`: records come, go and move during the walk, which has as many pages.
 */
export const trials = ['plain', 'killed', 'capped', 'moving'] as const;
export type Trial = (typeof trials)[number];

export interface TrialOptions {
  readonly folder: string;
  readonly vendor: Vendor;
  readonly file: PublicFile;
  /** What connectors read: the direct definition, or the hosted one through the program's own API. */
  readonly direct: JsonObject;
  readonly hosted: JsonObject | null;
  readonly trial: Trial;
  /** The calls that a plain read takes. */
  readonly calls: number;
  readonly seed: number;
}

export interface Tried {
  /** Of each entity that the vendor's table has: null where it passes, or what is wrong. */
  readonly verdicts: ReadonlyMap<string, string | null>;
  /** Entities that the product calls complete; while rows move, those that it proves. */
  readonly claimed: number;
  readonly calls: number;
}

export async function runTrial(options: TrialOptions): Promise<Tried> {
  const { folder, vendor, file, direct, hosted, trial, seed } = options;
  mkdirSync(folder, { recursive: true });
  const account = madeUpAccount(vendor, file, seed);
  const random = seededRandom(seed + 1);
  const moved = new Set<string>();
  let onCall: ((call: number) => void) | undefined;
  await using service = await openMadeUpService({
    vendor,
    file,
    account,
    cap: trial === 'capped' || trial === 'moving' ? 3 + Math.floor(random() * 12) : null,
    isOpen: trial === 'moving',
    onCall: (call) => onCall?.(call),
  });
  if (trial === 'moving') onCall = () => void (random() < 0.3 && moveRow(account, random, moved));
  const written = hosted ?? direct;
  const unknown = Object.keys(memberIn(written, 'entities')).filter((entity) => !account.has(entity));
  const exclude = unknown.length === 0 ? {} : { exclude: unknown };
  await using served = await openServed(hosted === null ? null : { hosted, direct, vendor, service });
  const config = configFor({ folder, written, service, exclude, vendor, served });
  let isKilled = trial !== 'killed';
  if (trial === 'killed') {
    const at = 2 + Math.floor(random() * Math.max(1, options.calls - 2));
    const running = startCli(['sync', '--config', config], { cwd: folder });
    onCall = (call) => void (call >= at && running.child.kill('SIGKILL'));
    const { code } = await running.result;
    isKilled = code === null;
    onCall = undefined;
  }
  const result = await callCli(['sync', '--config', config, '--json'], { cwd: folder });
  const report = reportIn(result);
  if (report === null || !isKilled) {
    const why = isKilled ? 'no report' : 'ended before it was killed';
    const text = `${result.stdout}${result.stderr}`.slice(0, 600);
    const verdicts = new Map([...account.keys()].map((entity) => [entity, `${why}: ${text}`]));
    return { verdicts, claimed: 0, calls: service.calls() };
  }
  return judged({
    account,
    folder,
    written,
    report,
    moved: withChildren(account, moved),
    isMoving: trial === 'moving',
    service,
  });
}

interface Judged {
  readonly account: Account;
  readonly folder: string;
  readonly written: JsonObject;
  readonly report: RunReport;
  readonly moved: ReadonlySet<string>;
  readonly isMoving: boolean;
  readonly service: MadeUpService;
}

function judged({ account, folder, written, report, moved, isMoving, service }: Judged): Tried {
  const definition = loadDefinition(join(folder, 'definitions', 'read.yaml'));
  const claimed = new Set<string>();
  const verdicts = [...definition.entities.values()].flatMap((entity): readonly [string, string | null][] => {
    const made = account.get(entity.name);
    if (made === undefined) return [];
    const own = report.entities.find((one) => one.entity === entity.name);
    const entities = memberIn(written, 'entities');
    // Pages by number in unknown order prove nothing, unless a total agrees: rows may slip by, and the report says so.
    const isOrdered = own?.unordered === 0 || entity.pagination.totalKeys.length > 0;
    const isProven = isOrdered && entity.parents.every((parent) => claimed.has(parent.entity));
    const isWhole = own !== undefined && own.isProven && own.isWhole && own.setAside === 0;
    const isClaimed = isWhole && (!isMoving || isProven);
    if (isClaimed) claimed.add(entity.name);
    const difference = compareEntity(
      join(folder, 'main.db'),
      entity,
      memberIn(entities, entity.name),
      made,
      moved,
    );
    // While rows move, a listing may be found incomplete: it must not be called complete and lack some.
    if (isMoving) {
      const isGap = difference !== null && isClaimed;
      return [[entity.name, isGap ? `called complete, and ${JSON.stringify(difference)}` : null]];
    }
    const doubts = report.failures.filter((one) => one.entity === entity.name).map(({ message }) => message);
    const why = [report.error?.message, ...doubts, ...service.refusals].join('; ').slice(0, 600);
    const text = JSON.stringify(difference);
    if (difference !== null && isClaimed) return [[entity.name, `called complete, and ${text}; ${why}`]];
    if (difference !== null) return [[entity.name, `${text}; ${why}`]];
    return [[entity.name, isClaimed ? null : `equal, and not called complete: ${report.outcome}; ${why}`]];
  });
  return { verdicts: new Map(verdicts), claimed: claimed.size, calls: service.calls() };
}

interface ConfigFor {
  readonly folder: string;
  readonly written: JsonObject;
  readonly service: MadeUpService;
  readonly exclude: JsonObject;
  readonly vendor: Vendor;
  readonly served: Awaited<ReturnType<typeof openServed>>;
}

/** A connector `mine` that reads into SQLite. */
function configFor({ folder, written, service, exclude, vendor, served }: ConfigFor): string {
  mkdirSync(join(folder, 'definitions'), { recursive: true });
  const read = served.api === null ? pointedAt(written, service.origin) : withoutLimits(written);
  writeFileSync(join(folder, 'definitions', 'read.yaml'), stringify(read));
  const config = join(folder, 'sync.yaml');
  const settings = {
    definitions: ['./definitions'],
    allowUpstreamHosts: [`127.0.0.1:${service.port}`],
    ...(served.api === null ? {} : { api: served.api }),
    sinks: { main: { type: 'sqlite', path: './main.db', durability: 'normal' } },
    connectors: {
      mine: {
        definition: textOf(written['name']),
        ...(served.id === null ? { credentials: vendor.credentials } : { id: served.id }),
        sink: 'main',
        ...exclude,
      },
    },
  };
  writeFileSync(config, stringify(settings), { mode: 0o600 });
  return config;
}

function withoutLimits(definition: JsonObject): JsonObject {
  return { ...definition, rateLimit: { requestsPerSecond: 1000, concurrency: 4 } };
}

function reportIn(result: CliResult): RunReport | null {
  const ended = jsonLines(result).find(({ kind }) => kind === 'run-report');
  // `as`: the program's own report.
  return ended === undefined ? null : (ended['report'] as RunReport);
}
