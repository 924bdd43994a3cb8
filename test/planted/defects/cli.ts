import type { Defect } from '../planting.ts';

const output = 'test/cli/output.test.ts';
const asked = 'test/cli/commands/sync/sync-all.test.ts';

/** Of commands: what they print, how they end, and which options they hear. */
export const cliDefects: readonly Defect[] = [
  {
    id: 'lesser-code-wins',
    name: 'gravest',
    find: '[2, 4, 1, 6, 5, 3, 130]',
    replace: '[2, 4, 6, 1, 5, 3, 130]',
    because: 'A command that failed for one connector ends as if only deletes were withheld.',
    foundBy: output,
  },
  {
    id: 'put-off-run-is-fine',
    name: 'exitCodeOfOutcome',
    find: 'return report.resumeAt === null ? exitCodes.ok : exitCodes.degraded;',
    replace: 'return report.resumeAt === null ? exitCodes.degraded : exitCodes.ok;',
    because: 'A run that the service put off ends with 0, and one that its own limit ended with 3.',
    foundBy: output,
  },
  {
    id: 'secret-on-stdout',
    name: 'openTerminal',
    find: 'const toOut = (text: string): void => out.write(scrubber.scrub(text));',
    replace: 'const toOut = (text: string): void => out.write(text);',
    because: 'A secret that an answer repeats is printed.',
    foundBy: output,
  },
  {
    id: 'closed-pipe-is-a-loss',
    name: 'writer',
    beside: 'openTerminal',
    find: "if (!('code' in error && error.code === 'EPIPE')) onLost(error);",
    replace: 'onLost(error);',
    because: 'A command whose output goes to "head" ends with an error.',
    foundBy: output,
  },
  {
    id: 'calls-for-each-connector',
    name: 'askedRuns',
    find: 'callsUsed += report?.calls ?? callsSeen;',
    replace: 'callsUsed = report?.calls ?? callsSeen;',
    because: 'A sync with --max-calls makes more calls than it was given.',
    foundBy: asked,
  },
  {
    id: 'whole-time-for-each-connector',
    name: 'askedRuns',
    find: 'return { isFull, allowDeletes, budgetMs: msLeft, maxCalls: callsLeft };',
    replace: 'return { isFull, allowDeletes, budgetMs, maxCalls: callsLeft };',
    because: 'A sync with --budget takes that time for each of its connectors.',
    foundBy: asked,
  },
  {
    id: 'masked-answer-shown',
    name: 'withoutTokens',
    find: '({ ...seen, url: shownUrl(seen.url), body: null })',
    replace: '({ ...seen, url: shownUrl(seen.url) })',
    because: 'A trial of a masked entity shows the bodies of answers.',
    foundBy: 'test/cli/secrets.test.ts',
  },
  {
    id: 'last-records-not-exported',
    name: 'textsOf',
    find: "if (text !== '') yield text;",
    replace: '',
    because: 'An export lacks its last records, and says that it has them.',
    foundBy: 'test/cli/export.test.ts',
    titled: 'has what was deleted since',
  },
  {
    id: 'deletes-exported-as-rows',
    name: 'textsOf',
    find: "written[record.isDeleted ? 'deletes' : 'upserts'] += 1;",
    replace: "written[record.isDeleted ? 'upserts' : 'deletes'] += 1;",
    because: 'An export reports its rows as deletes.',
    foundBy: 'test/cli/export.test.ts',
    titled: 'has what was deleted since',
  },
  {
    id: 'reset-without-yes',
    name: 'reset',
    find: 'if (!isSure) return await showWhatWouldGo(',
    replace: 'if (isSure) return await showWhatWouldGo(',
    because: 'A reset that was only to show what would go does it.',
    foundBy: 'test/cli/reset.test.ts',
    titled: 'without --yes only shows what would go',
  },
];
