import { openQueuesOf } from '../../app/reach-queues.ts';
import { usage } from '../../core/usage-error.ts';
import { printable } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { exitCodes } from '../output/exit-codes.ts';

export const reload = command({
  help: `
Each worker reads its own config file again. One with mistakes is refused, and the config before stays in force. New
connectors get their schedules within seconds; removed ones stop after their page; changed ones begin their next run with
it; other runs continue. A worker also does so on SIGHUP, and by itself where the config has "watch: true".

Exit codes: 0 every worker has the config; 1 one refused it, or did not answer within 20 s.`,
  run: async (context) => {
    const { terminal, signal, program } = context;
    await using queues = await openQueuesOf(await context.settings('redis'));
    const { workers, answers, silent } = await queues.reload(signal);
    if (workers === 0) {
      throw usage(
        `No worker runs on this Redis. Start one with "${program} worker": it reads the config then.`,
      );
    }
    terminal.printJson({ answers, silent });
    for (const { worker, config, outcome, text } of answers) {
      terminal.print(`${printable(worker)}: ${outcome} (${printable(config)}): ${printable(text)}`);
    }
    if (silent > 0) {
      terminal.print(`${silent} of ${workers} workers did not answer; their logs say why.`);
    }
    const isDone = silent === 0 && answers.every(({ outcome }) => outcome !== 'refused');
    return isDone ? exitCodes.ok : exitCodes.failed;
  },
});
