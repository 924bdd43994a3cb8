/** Runs `work`; throws its error as translated by `explain`. */
export async function explained<Result>(
  explain: (error: unknown) => unknown,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explain(error);
  }
}
