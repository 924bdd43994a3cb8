import { withConnectors, type CheckContext, runChecks } from '../../app/setup-checks.ts';
import { printable } from '../../telemetry/format.ts';
import { showLive } from '../../telemetry/progress.ts';
import { command, type CommandContext } from '../command.ts';
import { exitCodeOfErrorCode, exitCodes, gravestExitCode } from '../output/exit-codes.ts';
import { showWaits } from '../output/show-run.ts';
import { marks } from '../output/text-table.ts';

export const check = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: { '--deep': 'read every closed JSONL file and compare its hash, not only its length' },
  help: `
Examples:
  $ connector-sync check --config config/connector-sync.yaml
  $ connector-sync check newsletter                  that connector, its sink and its targets`,
  run: async (context, { deep: isDeep }, names) => {
    // Without a valid config nothing else can be checked: only its problems are reported.
    const settings = withConnectors(await context.settings('access', 'redis', 'http'), names);
    const { terminal } = context;
    const found = await runChecks(checkContext(context), settings, isDeep, ({ state, what, detail }) =>
      terminal.print(`${marks[state]} ${what}: ${printable(detail)}`),
    );
    // A warning names a possible later problem and changes no exit code.
    const results = found.map(({ code, ...result }) => ({
      ...result,
      exitCode: result.state === 'failed' ? exitCodeOfErrorCode(code ?? 'INTERNAL') : exitCodes.ok,
      ...(code === undefined ? {} : { code }),
    }));
    terminal.printJson({ ok: results.every(({ state }) => state !== 'failed'), checks: results });
    return gravestExitCode(results.map(({ exitCode }) => exitCode));
  },
});

/** Shows waits before retries, and the progress of what may take minutes. */
function checkContext(context: CommandContext): CheckContext {
  const { clock, terminal } = context;
  return {
    ...context,
    onWait: showWaits(terminal),
    showProgress: () => {
      let newest: string | null = null;
      const live = showLive(terminal, clock, () => (newest === null ? [] : [newest]));
      return {
        tell: (line) => void (newest = line),
        [Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
      };
    },
  };
}
