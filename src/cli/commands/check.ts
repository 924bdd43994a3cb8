import { printable } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { gravestExitCode } from '../output/exit-codes.ts';
import { marks } from './check/check-result.ts';
import { runChecks } from './check/run-checks.ts';

export const check = command({
  options: { '--deep': 'read every closed JSONL file and compare its hash, not only its length' },
  help: '\nExample:\n  $ connector-sync check --config config/connector-sync.yaml',
  run: async (context, { deep: isDeep }) => {
    // Without a valid config nothing else can be checked: its problems are the whole answer.
    const settings = await context.settings('access', 'redis', 'http');
    const { terminal } = context;
    const results = await runChecks(context, settings, isDeep, ({ state, what, detail }) =>
      terminal.print(`${marks[state]} ${what}: ${printable(detail)}`),
    );
    terminal.printJson({ ok: results.every(({ state }) => state !== 'failed'), checks: results });
    return gravestExitCode(results.map(({ exitCode }) => exitCode));
  },
});
