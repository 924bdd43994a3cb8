import { createVitest, type Vitest } from 'vitest/node';

/**
 * Runs in a copy of the project, as a child of `plant.ts`: runs tests again and again in one vitest, which keeps the
 * modules that did not change.
 */
export interface Asked {
  readonly foundBy: string;
  /** A regular expression; null: all tests of the file. */
  readonly titles: string | null;
  /** Files that were written since the question before. */
  readonly changed: readonly string[];
  readonly isToBuild: boolean;
}

export interface TestResults {
  /** Full titles. */
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** Why tests could not run. */
  readonly problem: string;
}

let vitest: Vitest | null = null;

async function openVitest(): Promise<Vitest> {
  const opened = await createVitest('test', { run: true, watch: false, reporters: [{}] });
  await opened.standalone();
  return opened;
}

async function answer({ foundBy, titles, changed, isToBuild }: Asked): Promise<TestResults> {
  vitest ??= await openVitest();
  for (const file of changed) vitest.invalidateFile(file);
  if (isToBuild) (await import('../support/ensure-built.ts')).setup();
  vitest.setGlobalTestNamePattern(titles ?? '');
  const found = await vitest.globTestSpecifications([foundBy]);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(found);
  const tests = testModules.flatMap((module) => [...module.children.allTests()]);
  const titlesOf = (state: string): readonly string[] =>
    tests.filter((test) => test.result().state === state).map(({ fullName }) => fullName);
  const errors = [...unhandledErrors, ...testModules.flatMap((module) => module.errors())];
  return {
    passed: titlesOf('passed'),
    failed: titlesOf('failed'),
    problem: errors
      .map((error) => (error instanceof Error ? error.message : JSON.stringify(error)))
      .join('\n'),
  };
}

process.on('message', (asked: Asked) => {
  answer(asked).then(
    (results) => process.send?.(results),
    (error: unknown) => process.send?.({ passed: [], failed: [], problem: String(error) }),
  );
});
process.on('disconnect', () => process.exit());
