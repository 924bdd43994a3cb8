import { targetWork } from '../../../app/erasures.ts';
import { ordinaryPublication, targetStatus, withTarget } from '../../../app/publish-target.ts';
import { heldBackTexts } from '../../../publish/plan-publication.ts';
import type { PrunedTarget } from '../../../publish/target.ts';
import { chosenTargets, isStillPublished } from '../../../settings/chosen-targets.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import { formatDuration } from '../../../settings/parse-unit.ts';
import type { LocalSettings, PublishSettings } from '../../../settings/settings.ts';
import { printable, count, counted, longAgo, toTheMinute, sizeText } from '../../../telemetry/format.ts';
import { unfinishedPurgeText } from '../../../wording/purged-text.ts';
import { command, type CommandContext } from '../../command.ts';
import {
  errorDocument,
  type ExitCode,
  exitCodeOfError,
  exitCodes,
  gravestExitCode,
  reportFailureOf,
} from '../../output/exit-codes.ts';
import { picked } from '../../output/json-text.ts';
import { leftColumns, rightColumns, indentedTable } from '../../output/text-table.ts';
import { showPublication } from './show-publication.ts';

export const stopping = 'Stopping: what is not published yet stays out. Ctrl-C again quits now.';

export const targets = ['[target...]', 'names from the config (default: all)'] as const;

/** What each target holds, and whether something newer is stored; each entity of the targets that were named. */
export const publishStatus = command({
  description: 'Show what each target holds, and whether something newer is stored.',
  argument: targets,
  run: async (context, _flags, names) => {
    const { terminal, clock } = context;
    return await ofEachTarget(context, names, async (target) => {
      const { newest, isUpToDate, newGeneration, heldBack, refusal } = await targetStatus(target, context);
      const work = await targetWork(target);
      const unfinished = work.length === 0 ? [] : [unfinishedPurgeText(work, context.program)];
      const code = refusal === null ? exitCodes.ok : exitCodeOfError(refusal);
      const manifest = newest?.manifest ?? null;
      terminal.printJson({
        kind: 'target',
        target: target.name,
        type: target.type,
        when: target.when,
        publication: manifest?.publication ?? null,
        createdAt: manifest?.createdAt ?? null,
        sha256: newest?.sha256 ?? null,
        isUpToDate,
        newGeneration,
        heldBack,
        unfinishedPurges: work,
        error: refusal === null ? null : errorDocument(refusal),
        entities: (manifest?.entities ?? []).map((one) => ({
          ...picked(one, 'connector', 'entity', 'generation', 'schema', 'base', 'through', 'asOf'),
          isInConfig: isStillPublished(target, one),
        })),
      });
      const when =
        target.when.kind === 'every' ? `every ${formatDuration(target.when.everyMs)}` : target.when.kind;
      if (manifest === null) {
        terminal.print(`${target.name} (${target.type}, ${when}): nothing was published yet`);
        terminal.print(...unfinished.map((line) => `  ! ${line}`));
        return exitCodes.ok;
      }
      const { publication, createdAt, entities } = manifest;
      const isPlain = refusal === null && newGeneration === null;
      const state = isUpToDate ? ', up to date' : isPlain ? ', something newer is stored' : '';
      terminal.print(
        `${target.name} (${target.type}, ${when}): publication ${publication} of ${longAgo(createdAt, clock.now())}${state}`,
      );
      if (refusal !== null) terminal.print(`  ! ${printable(refusal.message)}`);
      if (newGeneration !== null) {
        terminal.print(`  ! The next publication has all rows again, because ${newGeneration}`);
      }
      for (const line of [...unfinished, ...heldBackTexts(heldBack)]) terminal.print(`  ! ${line}`);
      const followed = entities.filter((one) => isStillPublished(target, one));
      const known = followed.flatMap(({ asOf }) => (asOf === null ? [] : [asOf])).toSorted();
      const [oldest] = known;
      const never = followed.length - known.length;
      const left = entities.length - followed.length;
      const parts = [
        counted(entities.length, 'entity', 'entities'),
        ...(oldest === undefined
          ? []
          : [
              `${never === 0 ? '' : `${count(known.length)} of them `}complete as of ${longAgo(oldest, clock.now())} or later`,
            ]),
        ...(never === 0 ? [] : [`${count(never)} never read completely`]),
        ...(left === 0 ? [] : [`${count(left)} no longer in the config`]),
      ];
      terminal.print(`  ${parts.join(', ')}`);
      if (names.length === 0) return code;
      const rows = entities.map(({ connector, entity, generation, base, through, asOf }) => [
        `${connector}/${entity}`,
        String(generation),
        String(base),
        String(through),
        !isStillPublished(target, { connector, entity })
          ? 'no longer in the config'
          : asOf === null
            ? 'never'
            : toTheMinute(asOf),
      ]);
      terminal.print(...indentedTable(statusColumns, rows));
      return code;
    });
  },
});

const statusColumns = [
  ...leftColumns('entity'),
  ...rightColumns('generation', 'read from', 'through _seq'),
  ...leftColumns('complete as of'),
];

/** Reads each target back. */
export const publishCheck = command({
  description:
    'Read targets back: every file with its hash and rows, no gap in the numbers. Changes nothing.',
  argument: targets,
  enter: () => ({ stopping }),
  run: async (context, _flags, names) => {
    const { terminal, program } = context;
    return await ofEachTarget(context, names, async (target) => {
      const { name } = target;
      const check = await withTarget(target, context, (opened) => opened.check(context.signal));
      const { publications, files, rows, bytes, problems } = check;
      terminal.printJson({ kind: 'target-check', target: name, ...check });
      const parts = [
        counted(publications, 'publication'),
        ...(files === 0 ? [] : [counted(files, 'file'), sizeText(bytes)]),
        counted(rows, 'row'),
      ];
      if (publications === 0 && problems.length === 0) {
        terminal.print(`${name}: nothing was published yet`);
        return exitCodes.ok;
      }
      terminal.print(
        `${name}: ${parts.join(', ')}: ${problems.length === 0 ? 'all as published' : counted(problems.length, 'problem')}`,
      );
      const more = problems.length - mostProblems;
      for (const problem of problems.slice(0, mostProblems)) terminal.print(`  ! ${printable(problem)}`);
      if (more > 0) terminal.print(`  ! and ${count(more)} more`);
      if (problems.length > 0) {
        terminal.note(
          `  Restore what is wrong from a backup, or publish all rows again: "${program} publish ${name} --new-generation".` +
            (files === 0
              ? ''
              : ' Earlier publications stay as they are: what they lack is reported as long as they are kept.'),
        );
      }
      return problems.length === 0 ? exitCodes.ok : exitCodes.failed;
    });
  },
});

const mostProblems = 20;

/** Removes what need not be kept, or says what that is. Where a purge is not finished, it is finished instead. */
export const publishPrune = command({
  description:
    'Remove publications older than "keep" of the config, and leftovers of killed publishers; finish purges.',
  argument: targets,
  options: { '--dry-run': 'say what would be removed, remove nothing' },
  enter: () => ({ stopping }),
  run: async (context, { dryRun: isDryRun }, names) => {
    const { terminal, clock } = context;
    return await ofEachTarget(context, names, async (target, settings) => {
      const { name, keepMs } = target;
      if ((await targetWork(target)).length > 0 && !isDryRun) {
        const { cleaned } = await showPublication(context, settings, target, ordinaryPublication);
        return (cleaned?.problem ?? null) === null ? exitCodes.ok : exitCodes.degraded;
      }
      const keepFromMs = keepMs === null ? null : clock.now() - keepMs;
      const pruned = await withTarget(target, context, (opened) => opened.prune(keepFromMs, isDryRun));
      terminal.printJson({ kind: 'target-pruned', target: name, isDryRun, ...pruned });
      terminal.print(`${name}: ${prunedText(pruned, isDryRun, keepMs)}`);
      return exitCodes.ok;
    });
  },
});

function prunedText(
  { publications, files, bytes, waiting }: PrunedTarget,
  isDryRun: boolean,
  keepMs: number | null,
): string {
  // Killed publishers left them, or one that is at work has just written them.
  const young = `${counted(waiting.files, 'file')}, ${sizeText(waiting.bytes)}`;
  const later = `${young} that no publication names ${waiting.files === 1 ? 'goes when it is' : 'go when they are'} a day old, or with the next publication`;
  const because = keepMs === null ? ' (its settings keep every publication)' : '';
  if (publications + files === 0) {
    return waiting.files > 0 ? `nothing to remove yet: ${later}` : `nothing to remove${because}`;
  }
  const what = `${counted(publications, 'publication')}${because}, ${counted(files, 'file')}, ${sizeText(bytes)}`;
  return `${isDryRun ? 'would remove' : 'removed'} ${what}${waiting.files > 0 ? `; ${later}` : ''}`;
}

/** A target that fails does not keep the others from their turn. */
export async function ofEachTarget(
  context: CommandContext,
  names: readonly string[],
  work: (target: PublishSettings, settings: LocalSettings) => Promise<ExitCode>,
): Promise<ExitCode> {
  const settings = await context.settings();
  const codes: ExitCode[] = [];
  for (const target of chosenTargets(settings, names)) {
    context.signal.throwIfAborted();
    try {
      checkTargets(settings, [target]);
      codes.push(await work(target, settings));
    } catch (error) {
      context.signal.throwIfAborted();
      const { name } = target;
      codes.push(reportFailureOf(context, name, error, { kind: 'publication-error', target: name }));
    }
  }
  return gravestExitCode(codes);
}
