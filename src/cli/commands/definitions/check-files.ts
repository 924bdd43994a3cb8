import { resolve } from 'node:path';
import { asRead, formatWithColumn } from '../../../core/problems.ts';
import { checkOwnDefinitions } from '../../../definitions/load-definitions.ts';
import { counted } from '../../../telemetry/format.ts';
import { command } from '../../command.ts';
import { exitCodes } from '../../output/exit-codes.ts';
import { marks } from '../check/check-result.ts';

export const checkFiles = command({
  description: 'Report every mistake of definition files, with line, column and path; needs no config.',
  argument: ['<file...>', 'definition files'],
  help: '\nExample:\n  $ connector-sync definitions check my-definitions/*.yaml',
  run: async ({ terminal, cwd }, _flags, files) => {
    const byPath = new Map(files.map((file) => [resolve(cwd, file), file]));
    const checked = checkOwnDefinitions([...byPath.keys()]).map((one) => ({
      ...one,
      problems: asRead(one.problems),
    }));
    const isSound = checked.every(({ problems }) => problems.length === 0);
    terminal.printJson({
      ok: isSound,
      files: checked.map(({ file, name, problems }) => ({ file, definition: name, problems })),
    });
    for (const { file, definition, problems } of checked) {
      const shown = byPath.get(file) ?? file;
      if (definition === null) {
        terminal.print(`${marks.failed} ${shown}: ${counted(problems.length, 'mistake')}`);
        terminal.print(...problems.map((one) => `  ${formatWithColumn({ ...one, file: shown })}`));
      } else {
        const entities = counted(definition.entities.size, 'entity', 'entities');
        terminal.print(`${marks.ok} ${shown}: ${definition.name} (${definition.title}), ${entities}`);
      }
    }
    return isSound ? exitCodes.ok : exitCodes.usage;
  },
});
