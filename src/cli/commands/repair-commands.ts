import {
  adoptIdentity,
  changedAddress,
  changedIdentity,
  type Sample,
  sampleConnector,
} from '../../app/adopt-connector.ts';
import { type Audit, auditEntity } from '../../app/audit-entity.ts';
import { openApp, openSharingApp } from '../../app/open-app.ts';
import { usage } from '../../core/errors.ts';
import { connectorNamed, entityTarget } from '../../settings/choices.ts';
import type { IdentityDifference } from '../../sinks/sink-errors.ts';
import type { KeyDifferences, KeyGroup } from '../../sinks/compare-keys.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { count, counted, printable } from '../../telemetry/format.ts';
import { command, type CommandContext, wholeNumber } from '../command.ts';
import { type ExitCode, exitCodeOfReport, exitCodes } from '../output/exit-codes.ts';
import { openPatientApp, showRun } from '../output/show-run.ts';
import { countTable, indentedTable, leftColumns } from '../output/text-table.ts';
import { askedRecord, type Refetched, refetchRecord } from '../../app/refetch-record.ts';

const defaultLimit = 20;
/** The longest list of keys: they are held in memory and printed. */
const mostKeys = 100_000;

export const audit = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: {
    '--limit <n>': {
      text: 'how many keys to list for each kind of difference',
      default: String(defaultLimit),
    },
  },
  help: `
Costs the calls of a full read of the entity and of its parents; the copy that it is compared with is in a private
temporary folder, removed at the end. Rows that changed since the last sync differ too. Values are compared, so rows
that were edited in the sink show; fields that the definition calls volatile do not count.

Exit codes: 0 equal, 3 different or not proven to be read completely; those of a sync where reading failed.

Example:
  $ connector-sync audit newsletter/list_members`,
  run: async (context, flags, name) => {
    const settings = await context.settings('access', 'redis');
    const target = entityTarget(settings, name);
    const { connector, entity } = target;
    const limit = wholeNumber('--limit', flags.limit, mostKeys);
    if (!connector.entities.has(entity.name)) {
      throw usage(`${name}: the config leaves ${entity.name} out, so no sync reads it.`);
    }
    const { clock, terminal, signal } = context;
    const note = (line: string): void => terminal.note(line);
    await using app = await openSharingApp({ settings, clock, command: 'connector-sync audit', note });
    const audit = await showRun(context, connector.name, null, ({ onEvent }) =>
      auditEntity(app, target, { limit, onEvent, signal }),
    );
    const { report, differences, doubts } = audit;
    if (differences === null) return tellUnread(context, name, report);
    const isEqual = numberOf(differences) === 0;
    terminal.printJson({ kind: 'audit', target: name, isEqual, isProven: doubts.length === 0, ...audit });
    terminal.print(...auditText(name, audit, differences));
    if (differences.extra.count > 0) {
      terminal.print(`  why a stored row is kept: ${context.program} explain ${name} --key ...`);
    }
    if (differences.edited.count > 0) {
      terminal.print(`  to store one again as the API has it: ${context.program} refetch ${name} --key ...`);
    }
    return isEqual && doubts.length === 0 ? exitCodes.ok : exitCodes.degraded;
  },
});

/** Reports a reading that ended early, and so proves nothing about stored records. */
function tellUnread({ terminal }: CommandContext, name: string, report: RunReport): ExitCode {
  terminal.printJson({ kind: 'audit', target: name, report, differences: null });
  const why = report.error?.message ?? report.outcome;
  terminal.note(`${name}: nothing was compared, because it could not be read completely: ${printable(why)}`);
  return report.outcome === 'partial' ? exitCodes.degraded : exitCodeOfReport(report);
}

function auditText(name: string, { report, doubts }: Audit, differences: KeyDifferences): readonly string[] {
  const { same, missing, extra, changed, edited } = differences;
  const alike = same + changed.count + edited.count;
  return [
    `${name}: ${counted(alike + missing.count, 'row')} at the API, ${count(alike + extra.count)} stored, ${count(same)} the same (${counted(report.calls, 'call')})`,
    ...groupText('missing: at the API, not stored', missing),
    ...groupText('extra: stored, not at the API', extra),
    ...groupText('changed: stored with different content', changed),
    ...groupText('edited: stored values that no sync has written', edited),
    ...doubts.map((doubt) => `  ! not certain: ${doubt}`),
    ...(numberOf(differences) === 0 ? ['  no differences'] : []),
  ];
}

function numberOf({ missing, extra, changed, edited }: KeyDifferences): number {
  return missing.count + extra.count + changed.count + edited.count;
}

function groupText(title: string, { count: rows, first }: KeyGroup): readonly string[] {
  if (rows === 0) return [];
  const more = rows - first.length;
  return [
    `  ${title}: ${count(rows)}`,
    ...first.map((key) => `    ${printable(key)}`),
    ...(more > 0 && first.length > 0 ? [`    and ${count(more)} more`] : []),
  ];
}

export const adopt = command({
  argument: ['<connector>', 'a name from the config'],
  options: { '--yes': 'accept the new address; without this, only show what is new' },
  help: `
For another scheme, host or port (a changed api.baseUrl, an edited definition), another account or connector id, or after
a sync that seemed to read another account. With --yes the credentials go to the new address, a sample of the records
there (at most 60 calls) is compared with what is stored, and refused where they disagree; without it, nothing is sent to
a new address. Nothing is deleted or reset. Deletes are withheld (exit code 6) until a full sync has found every stored
record at the new address. Where nothing is stored, nothing needs to be adopted.

Exit codes: 0 nothing speaks against it, 2 the sample disagrees; those of a sync where the sample could not be read.

Examples:
  $ connector-sync adopt newsletter
  $ connector-sync adopt newsletter --yes
  $ connector-sync sync newsletter --full`,
  run: async (context, { yes: isSure }, name) => {
    const { terminal, clock, signal, program } = context;
    const settings = await context.settings('access');
    const connector = connectorNamed(settings, name);
    const change = await changedAddress(connector, settings);
    const { differences: moved } = change;
    if (moved.length > 0) terminal.print(...differenceText(name, moved));
    if (moved.length > 0 && !isSure) {
      terminal.printJson({ connector: name, isAdopted: false, differences: moved });
      terminal.print(
        `Nothing was sent to the new address. To send the credentials there, compare the records, and adopt it: ${program} adopt ${name} --yes`,
      );
      return exitCodes.ok;
    }
    const command = 'connector-sync adopt';
    await using app = await openApp({ settings, clock, command, adopts: connector.name });
    const found = await changedIdentity(app, connector, change, signal);
    const { identity, differences, isDoubted, rows, mustSignIn } = found;
    if (differences.length === 0 && !isDoubted) {
      terminal.printJson({ connector: name, isAdopted: false, differences });
      terminal.print(
        `${name}: the sink holds this address and connector id already; there is nothing to adopt.`,
      );
      return exitCodes.ok;
    }
    if (differences.length > moved.length) terminal.print(...differenceText(name, differences));
    const sample = mustSignIn
      ? null
      : await showRun(context, connector.name, null, ({ onEvent }) =>
          sampleConnector(app, connector, { onEvent, signal }),
        );
    if (sample !== null && sample.report.outcome !== 'ok' && sample.report.outcome !== 'partial') {
      return tellUnsampled(context, name, sample);
    }
    terminal.print(...(sample === null ? [] : sampleText(sample)));
    const isAgreed = sample === null || sample.agrees;
    // At the same address a sync has stopped, and has shown the stored and the served identity: a person decides.
    const mayAdopt = isAgreed || differences.length === 0;
    const isAdopted = mayAdopt && isSure;
    if (isAdopted) await adoptIdentity(connector, identity, clock);
    const entities = sample?.entities ?? [];
    terminal.printJson({ connector: name, isAdopted, isAgreed, differences, rows, entities });
    if (!mayAdopt) {
      terminal.print(
        `${name}: not adopted, the new address serves other records. Correct the config, or give the other account another connector name. What is stored stays.`,
      );
      return exitCodes.usage;
    }
    terminal.print(
      isAdopted
        ? `${name}: adopted${mustSignIn ? `, and nothing was compared: the new address needs a sign-in, "${program} login ${name}"` : ''}. Deletes are withheld until "${program} sync ${name} --full" has found every stored record.`
        : `Nothing was changed.${isAgreed ? '' : ' The API serves other records than those that are stored.'} To adopt it: ${program} adopt ${name} --yes`,
    );
    return exitCodes.ok;
  },
});

function tellUnsampled({ terminal }: CommandContext, name: string, { report }: Sample): ExitCode {
  terminal.printJson({ connector: name, isAdopted: false, report });
  const why = report.error?.message ?? report.failures[0]?.message ?? report.outcome;
  terminal.note(`${name}: not adopted, the sample could not be read: ${printable(why)}`);
  const code = exitCodeOfReport(report);
  return code === exitCodes.ok ? exitCodes.failed : code;
}

function differenceText(name: string, differences: readonly IdentityDifference[]): readonly string[] {
  const rows = differences.map(({ what, stored, given }) => [what, stored, given]);
  return [`${name}:`, ...indentedTable(leftColumns('what', 'stored', 'now'), rows)];
}

function sampleText(sample: Sample): readonly string[] {
  const entities = sample.entities.map((one) => ({
    ...one,
    sampled: one.read,
    'not stored': one.added,
    'look deleted': one.missing,
  }));
  return countTable(entities, 'sampled', 'equal', 'changed', 'not stored', 'look deleted');
}

export const refetch = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: {
    '-k, --key <name=value...>': 'every field of its key',
    '--allow-deletes':
      'mark the stored record, and the rows below it, as deleted if the API has no such record',
  },
  help: `
Examples:
  $ connector-sync refetch newsletter/campaigns --key id=c1
  $ connector-sync refetch newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08`,
  run: async (context, { key, allowDeletes }, name) => {
    const { clock, signal, program } = context;
    const settings = await context.settings('access');
    const asked = await askedRecord(entityTarget(settings, name), key, program);
    const command = 'connector-sync refetch';
    await using app = await openPatientApp(context, settings, 'refetch');
    const refetched = await refetchRecord(app, asked, { clock, command, allowDeletes, signal });
    const { run } = refetched;
    const result = resultOf(refetched);
    context.terminal.printJson({ target: name, result, run });
    const text = texts[result](asked.target.entity.name);
    context.terminal.print(`${name}: ${text}${run === null ? '' : ` (run ${run})`}`);
    // 0 if the sink now matches the service, 3 if it may not.
    return result === 'missing' ? exitCodes.degraded : exitCodes.ok;
  },
});

type Result = 'inserted' | 'updated' | 'unchanged' | 'deleted' | 'not-stored' | 'missing';

function resultOf(refetched: Refetched): Result {
  switch (refetched.kind) {
    case 'stored': {
      const { inserted, updated } = refetched.counts;
      if (inserted > 0) return 'inserted';
      return updated > 0 ? 'updated' : 'unchanged';
    }
    case 'deleted':
      return refetched.wasStored ? 'deleted' : 'not-stored';
    case 'missing':
      return 'missing';
  }
}

const texts: Readonly<Record<Result, (entity: string) => string>> = {
  inserted: () => 'inserted',
  updated: () => 'updated',
  unchanged: () => 'unchanged: the stored record is the same as at the API',
  deleted: (entity) =>
    `deleted: the API has no such record; the next sync of ${entity} deletes the records below it`,
  'not-stored': () => 'the API has no such record, and none is stored',
  missing: () =>
    'the API has no such record; nothing was changed. --allow-deletes marks a stored one as deleted.',
};
