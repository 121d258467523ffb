import React, { useState } from "react";

interface Props {
  title: string;
  onClose: () => void;
}

/** A panel with a title. */
export const Panel: React.FC<Props> = ({ title, onClose }) => {
  const [open, setOpen] = useState<boolean>(true);
  return (
    <Frame.Box onClick={() => setOpen(!open)}>
      <h1>{title}</h1>
      <Button label="x" onPress={onClose} />
    </Frame.Box>
  );
};

export function useTitle<T,>(value: T): T {
  return value;
}
