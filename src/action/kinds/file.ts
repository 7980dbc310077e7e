export const fileAction: any = () => undefined;
