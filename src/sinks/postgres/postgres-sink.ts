export const openPostgresSink: any = () => { throw new Error('later'); };
