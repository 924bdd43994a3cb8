/** Runs `work`; what it fails with is thrown as `explain` makes it. */
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
